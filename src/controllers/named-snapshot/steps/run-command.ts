import { RametError } from "../../../base/errors.ts";
import type { SandboxGuest } from "../../../backends/sandbox-access.ts";
import { delay } from "../../../base/clock.ts";
import { egressNote } from "./egress-note.ts";
import type { LogTail } from "./log-tail.ts";
import { ProcessWatch } from "./process-watch.ts";
import type { StepSurroundings } from "./step-request.ts";
import { shell, unknownEnd } from "./shell.ts";
import type { StepContext } from "./step-context.ts";
import type { StepOutcome } from "./step-outcome.ts";

export interface CommandWish {
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
  wish: CommandWish,
  around: StepSurroundings,
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

async function follow(wish: CommandWish, around: StepSurroundings, log: LogTail): Promise<number> {
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

function start(guest: SandboxGuest, { commandLine, context, tag, timeoutSeconds }: CommandWish, signal: AbortSignal) {
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

function failed(exitCode: number, log: LogTail, { egress }: StepSurroundings): string {
  const note = egressNote(log.text(), egress);
  return `exit code ${exitCode}${note === undefined ? "" : `; ${note}`}`;
}

function tooLong(seconds: number, processes: ProcessWatch): string {
  return `it took longer than ${seconds} s and was ended${processes.note()}`;
}

const graceSeconds = 15;
const pauseMilliseconds = 500;
const mostFailures = 60;
