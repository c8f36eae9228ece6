import { RametError } from "../../../base/errors.ts";
import type { WaitFor } from "../../../api/recipe/wait-step.ts";
import { delay } from "../../../base/clock.ts";
import type { LogTail } from "./log-tail.ts";
import { runCommand } from "./run-command.ts";
import type { StepSurroundings } from "./step-request.ts";
import type { StepContext } from "./step-context.ts";
import type { StepOutcome } from "./step-outcome.ts";

export interface WaitSurroundings {
  context: StepContext;
  tag: string;
  around: StepSurroundings;
  log: LogTail;
}

/** Looks again and again, with growing pauses, until it holds or the time is over. */
export async function waitUntil(
  waitFor: WaitFor,
  timeoutSeconds: number,
  surroundings: WaitSurroundings,
): Promise<Pick<StepOutcome, "error">> {
  const { clock, signal } = surroundings.around;
  const deadline = clock.monotonicMilliseconds() + timeoutSeconds * 1000;
  for (let tries = 0; ; tries++) {
    const leftMilliseconds = deadline - clock.monotonicMilliseconds();
    if (await holds(waitFor, leftMilliseconds, tries, surroundings)) return {};
    const pause = Math.min(firstPauseMilliseconds * 2 ** Math.min(tries, 10), longestPauseMilliseconds);
    const left = deadline - clock.monotonicMilliseconds();
    if (left <= 0) return { error: `${wished(waitFor)} within ${timeoutSeconds} s` };
    await delay(clock, Math.min(pause, left), signal);
  }
}

async function holds(
  { port, file, command }: WaitFor,
  leftMilliseconds: number,
  tries: number,
  { context, tag, around, log }: WaitSurroundings,
): Promise<boolean> {
  if (port !== undefined) return around.takesConnections(port, around.signal);
  if (file !== undefined) return exists(file, context, around);
  const timeoutSeconds = Math.max(1, Math.ceil(leftMilliseconds / 1000));
  const wish = { commandLine: command ?? "", context, tag: `${tag}-${tries}`, fresh: true, timeoutSeconds };
  return (await runCommand(wish, around, log)).exitCode === 0;
}

async function exists(file: string, context: StepContext, { guest }: StepSurroundings): Promise<boolean> {
  try {
    await guest(context.user).stat(file);
    return true;
  } catch (error) {
    if (RametError.from(error).code === "NotFound") return false;
    throw error;
  }
}

function wished({ port, file, command }: WaitFor): string {
  if (port !== undefined) return `nothing took connections on port ${port} (from outside the sandbox)`;
  return file === undefined ? `${command ?? ""} did not end with exit code 0` : `${file} did not come to be`;
}

const firstPauseMilliseconds = 50;
const longestPauseMilliseconds = 1_000;
