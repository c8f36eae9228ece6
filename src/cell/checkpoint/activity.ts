import { readdir, readFile } from "node:fs/promises";
import { Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { SandboxActivity } from "../../api/schema/metadata.ts";
import type { Clock } from "../../base/clock.ts";

interface Capture {
  checkpointId: string;
  /** Those that clients had transferred before it. */
  bytes: number;
  /** gVisor's own process. */
  pid: number;
}

/**
 * What a sandbox has done since it was last captured, so that an idle one is not captured again: the CPU time of its processes, and the
 * bytes that clients have exchanged with it, also if a command only waits.
 */
export class Activity {
  readonly #clock: Clock;
  readonly #streams = new Set<Socket>();
  #closedBytes = 0;
  #last: (Capture & { cpuMilliseconds: number; at: number }) | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get bytes(): number {
    return [...this.#streams].reduce((sum, stream) => sum + bytesOf(stream), this.#closedBytes);
  }

  /** Counts the bytes of a client's connection to the sandbox. */
  follow(stream: Duplex): void {
    if (!(stream instanceof Socket) || stream.destroyed) return;
    this.#streams.add(stream);
    stream.once("close", () => {
      this.#streams.delete(stream);
      this.#closedBytes += bytesOf(stream);
    });
  }

  /** Begins to measure when the sandbox runs again. Returns what records that the capture has succeeded. */
  async resumed(capture: Capture): Promise<() => void> {
    const at = this.#clock.monotonicMilliseconds();
    const cpuMilliseconds = await cpuMillisecondsOf(capture.pid);
    return () => {
      this.#last = cpuMilliseconds === undefined ? undefined : { ...capture, cpuMilliseconds, at };
    };
  }

  /** Another sandbox replaces the captured one. */
  forget(): void {
    this.#last = undefined;
  }

  /** Undefined: nothing was captured, or it cannot be measured. */
  async sinceCapture(): Promise<SandboxActivity | undefined> {
    if (this.#last === undefined) return undefined;
    const { checkpointId, bytes, pid, cpuMilliseconds, at } = this.#last;
    const now = await cpuMillisecondsOf(pid);
    if (now === undefined) return undefined;
    return {
      checkpointId,
      milliseconds: Math.round(this.#clock.monotonicMilliseconds() - at),
      cpuMilliseconds: Math.max(0, now - cpuMilliseconds),
      bytes: this.bytes - bytes,
    };
  }
}

function bytesOf({ bytesRead, bytesWritten }: Socket): number {
  return bytesRead + bytesWritten;
}

/**
 * The CPU time of a process and its descendants, also of those that it has waited for. gVisor runs the programs of a sandbox in children
 * of its own process. Undefined: there is no such process.
 */
export async function cpuMillisecondsOf(pid: number): Promise<number | undefined> {
  const all = await Promise.all((await readdir("/proc")).filter((name) => /^\d+$/.test(name)).map(statOf));
  const children = Map.groupBy(
    all.flatMap((stat) => (stat === undefined ? [] : [stat])),
    ({ parent }) => parent,
  );
  const own = all.find((stat) => stat?.pid === pid);
  if (own === undefined) return undefined;
  const ticksOf = (stat: ProcessStat): number =>
    (children.get(stat.pid) ?? []).reduce((sum, child) => sum + ticksOf(child), stat.ticks);
  return ticksOf(own) * tickMilliseconds;
}

/** USER_HZ is 100 on every architecture that gVisor supports. */
const tickMilliseconds = 10;

interface ProcessStat {
  pid: number;
  parent: number;
  ticks: number;
}

/** The fields 4 and 14 to 17 (proc_pid_stat(5)). Undefined: the process has ended. */
async function statOf(name: string): Promise<ProcessStat | undefined> {
  const text = await readFile(`/proc/${name}/stat`, "utf8").catch(() => "");
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  if (fields.length < 20) return undefined;
  const ticks = fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0);
  return { pid: Number(name), parent: Number(fields[1]), ticks };
}
