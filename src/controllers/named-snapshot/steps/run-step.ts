import {
  copyMode,
  type CopyStep,
  runTimeoutSeconds,
  type WaitFor,
  waitTimeoutSeconds,
} from "../../../api/recipe/recipe.ts";
import { delay } from "../../../base/clock.ts";
import { RametError } from "../../../base/errors.ts";
import { LogTail } from "./log-tail.ts";
import { runCommand } from "./run-command.ts";
import { shell, unknownEnd } from "./shell.ts";
import type { StepContext, StepOutcome, StepEnvironment, StepRequest } from "./step.ts";

/**
 * Carries out one step. A step that was begun before (by a controller that is gone) is followed to its end, if the guest
 * still knows it. What the recipe does wrong is an outcome with an `error`.
 * @throws RametError when nobody can say how the step has ended
 */
export async function runStep(wish: StepRequest, around: StepEnvironment): Promise<StepOutcome> {
  const { clock } = around;
  const begun = clock.monotonicMilliseconds();
  const log = new LogTail();
  const result = await carryOut(wish, around, log).catch((thrown: unknown) => failureOfStep(thrown));
  const gone = result.error === undefined ? await whatHasEnded(wish, around) : undefined;
  return {
    ...result,
    ...(gone !== undefined && { error: gone }),
    milliseconds: clock.monotonicMilliseconds() - begun,
    log: log.text(),
  };
}

type Result = Pick<StepOutcome, "exitCode" | "error">;

async function carryOut(wish: StepRequest, around: StepEnvironment, log: LogTail): Promise<Result> {
  const { step } = wish;
  if (step.run !== undefined) {
    const timeoutSeconds = step.timeoutSeconds ?? runTimeoutSeconds;
    return runCommand({ ...wish, commandLine: step.run, timeoutSeconds }, around, log);
  }
  if (step.start !== undefined) return startCommand(step.start, wish, around);
  if (step.copy !== undefined) return copyFile(step.copy, wish, around);
  if (step.waitFor === undefined) return {};
  return waitUntil(step.waitFor, step.waitFor.timeoutSeconds ?? waitTimeoutSeconds, { ...wish, around, log });
}

/** The command goes on by itself; its first word from the guest is the end of the step. */
async function startCommand(
  commandLine: string,
  { tag, context, fresh }: StepRequest,
  { guest, signal }: StepEnvironment,
): Promise<Result> {
  const user = guest(context.user);
  if (!fresh && (await user.listProcesses()).some((one) => one.tag === tag)) return {};
  if (!fresh) throw unknownEnd(commandLine);
  for await (const event of user.startProcess(shell(commandLine, context, tag), signal)) {
    if (event.type === "start") return {};
  }
  return { error: "the command ended before it was started" };
}

/** What earlier steps have started must still run: it is promised to be in the memory of every clone. */
async function whatHasEnded({ started }: StepRequest, { guest }: StepEnvironment): Promise<string | undefined> {
  if (started.size === 0) return undefined;
  const running = new Set((await guest(undefined).listProcesses()).map(({ tag }) => tag));
  const [ended] = [...started].filter(([tag]) => !running.has(tag));
  return ended && `what step ${ended[1]} has ended by itself`;
}

/** What the recipe can mend is the step's failure; all else says nothing of the recipe. */
function failureOfStep(thrown: unknown): Result {
  const error = RametError.from(thrown);
  if (!ofTheRecipe.has(error.code)) throw error;
  return { error: error.describe() };
}

const ofTheRecipe = new Set(["InvalidArgument", "Timeout", "NotFound", "Forbidden", "Unauthorized"]);

/** Writes the file, and gives it its mode where it is not the one that files have anyway. It can be repeated. */
async function copyFile(
  copy: CopyStep,
  { context, tag }: StepRequest,
  around: StepEnvironment,
): Promise<Pick<StepOutcome, "exitCode" | "error">> {
  const { guest, contentOf, signal } = around;
  await guest(context.user).writeFile(copy.path, await contentOf(copy, signal), signal);
  const mode = (copy.mode ?? copyMode).padStart(4, "0");
  if (mode === copyMode) return {};
  const commandLine = `chmod ${mode} "$RAMET_COPIED"`;
  const environment = { ...context.environment, RAMET_COPIED: copy.path };
  const wish = {
    commandLine,
    context: { ...context, environment },
    tag,
    fresh: true,
    timeoutSeconds: modeTimeoutSeconds,
  };
  const log = new LogTail();
  const { error, ...rest } = await runCommand(wish, around, log);
  return error === undefined ? rest : { ...rest, error: `chmod ${mode}: ${error} ${log.text()}`.trim() };
}

const modeTimeoutSeconds = 30;

interface WaitEnvironment {
  context: StepContext;
  tag: string;
  around: StepEnvironment;
  log: LogTail;
}

/** Looks again and again, with growing pauses, until it holds or the time is over. */
async function waitUntil(
  waitFor: WaitFor,
  timeoutSeconds: number,
  surroundings: WaitEnvironment,
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
  { context, tag, around, log }: WaitEnvironment,
): Promise<boolean> {
  if (port !== undefined) return around.takesConnections(port, around.signal);
  if (file !== undefined) return exists(file, context, around);
  const timeoutSeconds = Math.max(1, Math.ceil(leftMilliseconds / 1000));
  const wish = { commandLine: command ?? "", context, tag: `${tag}-${tries}`, fresh: true, timeoutSeconds };
  return (await runCommand(wish, around, log)).exitCode === 0;
}

async function exists(file: string, context: StepContext, { guest }: StepEnvironment): Promise<boolean> {
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
