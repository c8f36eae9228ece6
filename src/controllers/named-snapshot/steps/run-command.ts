import type { SandboxGuest } from "../../../backends/runtime.ts";
import { delay } from "../../../base/clock.ts";
import { defined } from "../../../base/defined.ts";
import { RametError } from "../../../base/errors.ts";
import { within } from "../../../base/within.ts";
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
  const { clock, signal } = environment;
  const { timeoutSeconds } = request;
  // The guest enforces the time limit; this limit is for a sandbox that does not respond.
  const deadline = { clock, milliseconds: (timeoutSeconds + graceSeconds) * 1000, what: "The command", signal };
  const startedAt = clock.monotonicMilliseconds();
  const tooLong = `it took longer than ${timeoutSeconds} s and was stopped`;
  try {
    const exitCode = await within(deadline, (either) => follow(request, { ...environment, signal: either }, log));
    const late = clock.monotonicMilliseconds() - startedAt >= timeoutSeconds * 1000;
    if (exitCode === 0) return { exitCode };
    return { exitCode, error: late ? tooLong : failed(exitCode, log, environment) };
  } catch (thrown) {
    const error = RametError.from(thrown);
    if (error.code === "Timeout") return { error: tooLong };
    throw error;
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
    else {
      if (event.outputOpen)
        log.add(Buffer.from("The output is incomplete: a process that the command started keeps it open\n"));
      return event.exitCode;
    }
  }
  throw new RametError("GuestUnreachable", "the connection ended before the command did", { retryable: true });
}

function failed(exitCode: number, log: LogTail, { egress }: StepEnvironment): string {
  const note = egressNote(log.text(), egress);
  return `exit code ${exitCode}${note === undefined ? "" : `; ${note}`}`;
}

const graceSeconds = 15;
const pauseMilliseconds = 500;
const mostFailures = 60;

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
