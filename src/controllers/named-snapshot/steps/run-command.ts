import type { SandboxGuest } from "../../../backends/runtime.ts";
import { type Clock, delay } from "../../../base/clock.ts";
import { RametError } from "../../../base/errors.ts";
import type { LogTail } from "./log-tail.ts";
import { shell, unknownEnd } from "./shell.ts";
import { egressNote, type StepContext, type StepOutcome, type StepEnvironment } from "./step.ts";

export interface CommandRequest {
  commandLine: string;
  context: StepContext;
  tag: string;
  fresh: boolean;
  timeoutSeconds: number;
}

/**
 * Runs a command line to its end, across connections that break: the guest keeps the command and what it prints.
 * @throws RametError `SandboxLost` when its end cannot be known, `GuestUnreachable`, `Canceled`
 */
export async function runCommand(
  wish: CommandRequest,
  around: StepEnvironment,
  log: LogTail,
): Promise<Pick<StepOutcome, "exitCode" | "error">> {
  const { timeoutSeconds } = wish;
  const over = new AbortController();
  // The guest ends the command at its time; this is for a sandbox that does not even answer.
  const cancel = around.clock.schedule((timeoutSeconds + graceSeconds) * 1000, () => {
    over.abort();
  });
  const processes = new ProcessWatch(around.guest(undefined), around.clock, timeoutSeconds);
  const begun = around.clock.monotonicMilliseconds();
  try {
    const exitCode = await follow(wish, { ...around, signal: AbortSignal.any([around.signal, over.signal]) }, log);
    const late = around.clock.monotonicMilliseconds() - begun >= timeoutSeconds * 1000;
    if (exitCode === 0) return { exitCode };
    return { exitCode, error: late ? tooLong(timeoutSeconds, processes) : failed(exitCode, log, around) };
  } catch (thrown) {
    const error = RametError.from(thrown);
    if (over.signal.aborted || error.code === "Timeout") return { error: tooLong(timeoutSeconds, processes) };
    throw error;
  } finally {
    processes.stop();
    cancel();
  }
}

async function follow(wish: CommandRequest, around: StepEnvironment, log: LogTail): Promise<number> {
  const { clock, signal } = around;
  const guest = around.guest(wish.context.user);
  let begin = wish.fresh;
  for (let failures = 0; ;) {
    try {
      return await exitCodeOf(begin ? start(guest, wish, signal) : guest.connect({ tag: wish.tag }, signal), log);
    } catch (thrown) {
      const error = RametError.from(thrown);
      if (error.code === "NotFound" && !begin) throw unknownEnd(wish.commandLine);
      if (error.code !== "GuestUnreachable" && error.code !== "Unavailable") throw error;
      if (++failures > mostFailures) throw error;
      // It may have been started all the same: from now on it is only looked for.
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
  const wish = { ...shell(commandLine, context, tag), timeoutMilliseconds: timeoutSeconds * 1000 };
  return guest.startProcess(wish, signal);
}

type Events = ReturnType<SandboxGuest["startProcess"]>;

async function exitCodeOf(events: Events, log: LogTail): Promise<number> {
  for await (const event of events) {
    // Whoever connects again is told all that the guest has kept.
    if (event.type === "start") log.clear();
    else if (event.type === "data") log.add(event.data);
    else return event.exitCode;
  }
  throw new RametError("GuestUnreachable", "the end of a command was not told", { retryable: true });
}

function failed(exitCode: number, log: LogTail, { egress }: StepEnvironment): string {
  const note = egressNote(log.text(), egress);
  return `exit code ${exitCode}${note === undefined ? "" : `; ${note}`}`;
}

function tooLong(seconds: number, processes: ProcessWatch): string {
  return `it took longer than ${seconds} s and was ended${processes.note()}`;
}

const graceSeconds = 15;
const pauseMilliseconds = 500;
const mostFailures = 60;

/**
 * Asks a sandbox again and again, while a command runs in it, how many processes there are. A program that starts others
 * without end is known by a great number, or by a guest that gets no time to answer, whatever the last answer said: one may
 * come through at any moment, and the end of such a program lets the guest answer at once. Where the command's own time is
 * up, that is the cause.
 */
export class ProcessWatch {
  readonly #clock: Clock;
  readonly #stopped = new AbortController();
  readonly #overAt: number;
  #mostProcesses = 0;
  #longestSilence = 0;
  #answeredAt: number;

  /** @param timeoutSeconds of the command, which begins now */
  constructor(guest: Pick<SandboxGuest, "list">, clock: Clock, timeoutSeconds: number) {
    this.#clock = clock;
    this.#answeredAt = clock.monotonicMilliseconds();
    this.#overAt = this.#answeredAt + timeoutSeconds * 1000;
    this.#watch(guest).catch(() => undefined);
  }

  stop(): void {
    this.#stopped.abort();
  }

  /** What is to be told of a command whose time is up, as the end of a sentence; empty where nothing is remarkable. */
  note(): string {
    const silentSeconds = Math.floor(Math.max(this.#longestSilence, this.#silence()) / 1000);
    if (silentSeconds >= longSilenceSeconds) {
      return `; the sandbox had not answered for ${silentSeconds} s: ${cause}, or at how busy its node is`;
    }
    const processes = this.#mostProcesses;
    return processes >= manyProcesses ? `; it had ${processes} processes: ${cause}` : "";
  }

  async #watch(guest: Pick<SandboxGuest, "list">): Promise<void> {
    while (!this.#stopped.signal.aborted && this.#clock.monotonicMilliseconds() < this.#overAt) {
      await delay(this.#clock, betweenCountsMilliseconds, this.#stopped.signal);
      // One that cannot be reached: what is wrong, the command's own connection tells.
      const count = await processesIn(guest).catch(() => undefined);
      if (count === undefined) continue;
      this.#longestSilence = Math.max(this.#longestSilence, this.#silence());
      this.#mostProcesses = Math.max(this.#mostProcesses, count);
      this.#answeredAt = this.#clock.monotonicMilliseconds();
    }
  }

  /** In milliseconds, since the last answer; what comes after the command's time does not count. */
  #silence(): number {
    return Math.min(this.#clock.monotonicMilliseconds(), this.#overAt) - this.#answeredAt;
  }
}

async function processesIn(guest: Pick<SandboxGuest, "list">): Promise<number> {
  return (await guest.list("/proc")).filter(({ name }) => /^\d+$/.test(name)).length;
}

const cause = "look at whether a program starts others without end";
const betweenCountsMilliseconds = 1_000;
const longSilenceSeconds = 4;
const manyProcesses = 500;
