import { watch } from "node:fs";
import type { CellState } from "../../api/cell/cell-api.ts";
import type { Clock } from "../../base/clock.ts";
import { isProcessRunning, signalProcess } from "../process-identity.ts";
import type { LaunchedPod } from "./launch-pod.ts";
import type { PodDirectory, PodRecord } from "./pod-directory.ts";
import type { NodePod } from "./pod.ts";
import { PodProbes, type ProbeVerdict } from "./probes.ts";

export interface PodProcessOptions {
  directory: PodDirectory;
  clock: Clock;
  /** Called when the cell's state has changed and when the process has ended. */
  onChange: () => void;
}

export interface StartOptions extends PodProcessOptions {
  launched: LaunchedPod;
  identity: Pick<PodRecord, "uid" | "namespace" | "name" | "ip" | "spare">;
}

/** How a Pod's process ended. The code is unknown for a process of an earlier run of the node. */
export interface PodExit {
  at: Date;
  exitCode?: number;
  signal?: NodeJS.Signals;
}

const adoptedPollMilliseconds = 1_000;

/**
 * The outer process of one Pod, `ramet-link pod`. All other processes of the Pod are in its namespaces. It has its own
 * session and keeps running when the node ends; a later run of the node adopts it.
 */
export class PodProcess {
  readonly record: PodRecord;
  readonly directory: PodDirectory;
  readonly #options: PodProcessOptions;
  #state: CellState | undefined;
  #exit: PodExit | undefined;
  #ended = Promise.withResolvers<undefined>();
  #stopWatching: () => void = () => undefined;
  #cancelKill: (() => void) | undefined;
  #probes: PodProbes | undefined;
  #condemned: string | undefined;
  /** On the monotonic clock. */
  #restoringSince: number | undefined;

  private constructor(record: PodRecord, options: PodProcessOptions) {
    this.record = record;
    this.#condemned = record.condemned;
    this.directory = options.directory;
    this.#options = options;
  }

  /** Records a launched process in the Pod's directory and follows it. */
  static start({ launched, identity, ...options }: StartOptions): PodProcess {
    const { child, process } = launched;
    const startedAt = options.clock.now().toISOString();
    const started = new PodProcess({ ...identity, process, startedAt }, options);
    options.directory.writeRecord(started.record);
    const end = (exit: Omit<PodExit, "at">): void => {
      started.#end(exit);
    };
    if (child.exitCode !== null || child.signalCode !== null) end(exitOf(child.exitCode, child.signalCode));
    else
      child.once("exit", (code, signal) => {
        end(exitOf(code, signal));
      });
    started.#watch();
    return started;
  }

  /** Follows a process of an earlier run of the node, which may have ended meanwhile. */
  static adopt(record: PodRecord, options: PodProcessOptions): PodProcess {
    const adopted = new PodProcess(record, options);
    adopted.#watch();
    adopted.#poll();
    return adopted;
  }

  /** The cell's last written state. Absent until it listens. */
  get state(): CellState | undefined {
    return this.#state;
  }

  /** How long a restore in place has been running, in milliseconds. Absent if none is. */
  get restoringInPlaceMilliseconds(): number | undefined {
    if (this.#restoringSince === undefined) return undefined;
    return this.#options.clock.monotonicMilliseconds() - this.#restoringSince;
  }

  get exit(): PodExit | undefined {
    return this.#exit;
  }

  /** The failed startup or liveness probe because of which the node has stopped the Pod. */
  get condemned(): string | undefined {
    return this.#condemned;
  }

  /** The result of the Pod's probes. Absent before `probe`. */
  get verdict(): ProbeVerdict | undefined {
    return this.#probes?.verdict;
  }

  /** Starts the Pod's probes, unless they run already. */
  probe(pod: NodePod): void {
    const [container] = pod.spec.containers;
    if (this.#probes !== undefined || this.#exit !== undefined || container === undefined) return;
    const { clock, onChange } = this.#options;
    const graceSeconds = pod.spec.terminationGracePeriodSeconds ?? 30;
    this.#probes = new PodProbes({
      target: { ip: this.record.ip, container },
      before: pod.status?.containerStatuses?.[0],
      clock,
      onChange,
      onFatal: (message, ownGraceSeconds) => {
        this.#condemned = message;
        this.directory.writeRecord({ ...this.record, condemned: message });
        this.terminate((ownGraceSeconds ?? graceSeconds) * 1000);
      },
    });
    if (this.#state !== undefined) this.#probes.follow(this.#state);
  }

  /** Resolves when the process has ended. */
  get ended(): Promise<undefined> {
    return this.#ended.promise;
  }

  /** Sends SIGTERM to the cell, and SIGKILL after the grace period. A later call replaces the grace period. */
  terminate(graceMilliseconds: number): void {
    if (this.#exit !== undefined) return;
    const { process } = this.record;
    if (graceMilliseconds > 0) signalProcess(process, "SIGTERM");
    this.#cancelKill?.();
    this.#cancelKill = this.#options.clock.schedule(graceMilliseconds, () => signalProcess(process, "SIGKILL"));
  }

  #watch(): void {
    const { directory } = this.#options;
    const watcher = watch(directory.stateDirectory, () => {
      this.#read();
    });
    watcher.on("error", () => {
      watcher.close();
    });
    this.#stopWatching = () => {
      watcher.close();
    };
    this.#read();
  }

  #read(): void {
    const state = this.#options.directory.readState();
    if (state === undefined || JSON.stringify(state) === JSON.stringify(this.#state)) return;
    this.#state = state;
    if (state.swapping === undefined) this.#restoringSince = undefined;
    else this.#restoringSince ??= this.#options.clock.monotonicMilliseconds();
    this.#probes?.follow(state);
    this.#options.onChange();
  }

  #poll(): void {
    if (!isProcessRunning(this.record.process)) {
      this.#end({});
      return;
    }
    this.#options.clock.schedule(adoptedPollMilliseconds, () => {
      this.#poll();
    });
  }

  #end(exit: Omit<PodExit, "at">): void {
    if (this.#exit !== undefined) return;
    this.#cancelKill?.();
    this.#stopWatching();
    this.#probes?.stop();
    // The watch may not have reported the cell's last write.
    this.#state = this.#options.directory.readState() ?? this.#state;
    this.#exit = { at: this.#options.clock.now(), ...exit };
    this.#ended.resolve(undefined);
    this.#options.onChange();
  }
}

function exitOf(code: number | null, signal: NodeJS.Signals | null): Omit<PodExit, "at"> {
  return { ...(code !== null && { exitCode: code }), ...(signal !== null && { signal }) };
}
