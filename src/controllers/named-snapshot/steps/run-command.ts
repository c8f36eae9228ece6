import type { SandboxGuest } from "../../../backends/runtime.ts";
import { type Clock, delay } from "../../../base/clock.ts";
import { defined } from "../../../base/defined.ts";
import { RametError } from "../../../base/errors.ts";
import { egressNote, type StepContext, type StepEnvironment, type StepOutcome } from "./step.ts";

export interface CommandRequest {
  commandLine: string;
  context: StepContext;
  tag: string;
  fresh: boolean;
  timeoutSeconds: number;
}

/**
 * Runs a command line to its end and reconnects if the connection breaks: the guest keeps the command and its output.
 * @throws RametError `SandboxLost` when its result is unknown, `GuestUnreachable`, `Canceled`
 */
export async function runCommand(
  request: CommandRequest,
  environment: StepEnvironment,
  log: LogTail,
): Promise<Pick<StepOutcome, "exitCode" | "error">> {
  const { timeoutSeconds } = request;
  const over = new AbortController();
  // The guest enforces the time limit; this limit is for a sandbox that does not respond.
  const cancel = environment.clock.schedule((timeoutSeconds + graceSeconds) * 1000, () => {
    over.abort();
  });
  const processes = new ProcessWatch(environment.guest(undefined), environment.clock, timeoutSeconds);
  const startedAt = environment.clock.monotonicMilliseconds();
  try {
    const exitCode = await follow(
      request,
      { ...environment, signal: AbortSignal.any([environment.signal, over.signal]) },
      log,
    );
    const late = environment.clock.monotonicMilliseconds() - startedAt >= timeoutSeconds * 1000;
    if (exitCode === 0) return { exitCode };
    return { exitCode, error: late ? tooLong(timeoutSeconds, processes) : failed(exitCode, log, environment) };
  } catch (thrown) {
    const error = RametError.from(thrown);
    if (over.signal.aborted || error.code === "Timeout") return { error: tooLong(timeoutSeconds, processes) };
    throw error;
  } finally {
    processes.stop();
    cancel();
  }
}

async function follow(request: CommandRequest, environment: StepEnvironment, log: LogTail): Promise<number> {
  const { clock, signal } = environment;
  const guest = environment.guest(request.context.user);
  let begin = request.fresh;
  for (let failures = 0; ;) {
    try {
      return await exitCodeOf(begin ? start(guest, request, signal) : guest.connect({ tag: request.tag }, signal), log);
    } catch (thrown) {
      const error = RametError.from(thrown);
      if (error.code === "NotFound" && !begin) throw unknownEnd(request.commandLine);
      if (error.code !== "GuestUnreachable" && error.code !== "Unavailable") throw error;
      if (++failures > mostFailures) throw error;
      // The command may have been started, so from now on only connect to it.
      begin = false;
      await delay(clock, pauseMilliseconds, signal);
    }
  }
}

function start(
  guest: SandboxGuest,
  { commandLine, context, tag, timeoutSeconds }: CommandRequest,
  signal: AbortSignal,
) {
  const request = { ...shell(commandLine, context, tag), timeoutMilliseconds: timeoutSeconds * 1000 };
  return guest.startProcess(request, signal);
}

type Events = ReturnType<SandboxGuest["startProcess"]>;

async function exitCodeOf(events: Events, log: LogTail): Promise<number> {
  for await (const event of events) {
    // After a reconnect, the guest sends all kept output once more.
    if (event.type === "start") log.clear();
    else if (event.type === "data") log.add(event.data);
    else return event.exitCode;
  }
  throw new RametError("GuestUnreachable", "the connection ended before the command did", { retryable: true });
}

function failed(exitCode: number, log: LogTail, { egress }: StepEnvironment): string {
  const note = egressNote(log.text(), egress);
  return `exit code ${exitCode}${note === undefined ? "" : `; ${note}`}`;
}

function tooLong(seconds: number, processes: ProcessWatch): string {
  return `it took longer than ${seconds} s and was stopped${processes.note()}`;
}

const graceSeconds = 15;
const pauseMilliseconds = 500;
const mostFailures = 60;

/**
 * Counts the processes of a sandbox periodically while a command runs in it, to explain a timeout. A program that starts
 * processes without limit shows as a high count, or as a guest that gets no CPU time to respond.
 */
export class ProcessWatch {
  readonly #clock: Clock;
  readonly #stopped = new AbortController();
  readonly #overAt: number;
  #mostProcesses = 0;
  #longestSilence = 0;
  #answeredAt: number;

  /** @param timeoutSeconds time limit of the command, which starts now */
  constructor(guest: Pick<SandboxGuest, "list">, clock: Clock, timeoutSeconds: number) {
    this.#clock = clock;
    this.#answeredAt = clock.monotonicMilliseconds();
    this.#overAt = this.#answeredAt + timeoutSeconds * 1000;
    this.#watch(guest).catch(() => undefined);
  }

  stop(): void {
    this.#stopped.abort();
  }

  /** A possible cause of the timeout, as the end of a sentence; empty if nothing is unusual. */
  note(): string {
    const silentSeconds = Math.floor(Math.max(this.#longestSilence, this.#silence()) / 1000);
    if (silentSeconds >= longSilenceSeconds) {
      return `; the sandbox did not respond for ${silentSeconds} s: ${cause}, or whether its node is overloaded`;
    }
    const processes = this.#mostProcesses;
    return processes >= manyProcesses ? `; it had ${processes} processes: ${cause}` : "";
  }

  async #watch(guest: Pick<SandboxGuest, "list">): Promise<void> {
    while (!this.#stopped.signal.aborted && this.#clock.monotonicMilliseconds() < this.#overAt) {
      await delay(this.#clock, betweenCountsMilliseconds, this.#stopped.signal);
      // The connection of the command reports why the guest is unreachable.
      const count = await processesIn(guest).catch(() => undefined);
      if (count === undefined) continue;
      this.#longestSilence = Math.max(this.#longestSilence, this.#silence());
      this.#mostProcesses = Math.max(this.#mostProcesses, count);
      this.#answeredAt = this.#clock.monotonicMilliseconds();
    }
  }

  /** Milliseconds since the last response, up to the time limit of the command. */
  #silence(): number {
    return Math.min(this.#clock.monotonicMilliseconds(), this.#overAt) - this.#answeredAt;
  }
}

async function processesIn(guest: Pick<SandboxGuest, "list">): Promise<number> {
  return (await guest.list("/proc")).filter(({ name }) => /^\d+$/.test(name)).length;
}

const cause = "check whether a program starts processes without limit";
const betweenCountsMilliseconds = 1_000;
const longSilenceSeconds = 4;
const manyProcesses = 500;

/** The request to the guest to run a command line of a recipe. */
export function shell(commandLine: string, context: StepContext, tag: string) {
  const { environment, workingDirectory } = context;
  const isBash = context.shell === "bash";
  return {
    // The guest runs /bin/sh in an image without bash.
    command: isBash ? "/bin/bash" : "/bin/sh",
    args: isBash ? ["-l", "-c", commandLine] : ["-c", commandLine],
    environment,
    ...defined({ workingDirectory }),
    tag,
  };
}

/** An earlier controller started the command and the guest no longer knows it: it may have ended or never started. */
export function unknownEnd(commandLine: string): RametError {
  return new RametError(
    "SandboxLost",
    `Cannot continue the step: the result of ${JSON.stringify(commandLine.slice(0, 80))} is unknown`,
  );
}

/** The end of the output of a step, both streams in the order of arrival. */
export class LogTail {
  #chunks: Buffer[] = [];
  #bytes = 0;
  #dropped = false;

  add(data: Buffer): void {
    this.#chunks.push(data);
    this.#bytes += data.length;
    while (this.#bytes - (this.#chunks[0]?.length ?? 0) >= mostBytes) {
      this.#bytes -= this.#chunks.shift()?.length ?? 0;
      this.#dropped = true;
    }
  }

  /** Called when a connection is made again: the guest then sends all kept output once more. */
  clear(): void {
    this.#chunks = [];
    this.#bytes = 0;
    this.#dropped = false;
  }

  text(): string {
    const text = Buffer.concat(this.#chunks).toString("utf8");
    // ConfigMaps and statuses cannot hold NUL.
    const clean = text.replaceAll("\0", "");
    return this.#dropped ? `(earlier output was truncated)\n${clean}` : clean;
  }
}

/** A ConfigMap holds 1 MiB, and a recipe has up to 100 steps. */
const mostBytes = 64 * 1024;
