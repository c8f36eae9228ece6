import { RametError } from "../../../base/errors.ts";
import { runTimeoutSeconds } from "../../../api/recipe/recipe.ts";
import { waitTimeoutSeconds } from "../../../api/recipe/wait-step.ts";
import { copyFile } from "./copy-file.ts";
import { LogTail } from "./log-tail.ts";
import { runCommand } from "./run-command.ts";
import { shell, unknownEnd } from "./shell.ts";
import type { StepOutcome } from "./step-outcome.ts";
import type { StepSurroundings, StepWish } from "./step-request.ts";
import { waitUntil } from "./wait-until.ts";

/**
 * Carries out one step. A step that was begun before (by a controller that is gone) is followed to its end, if the guest
 * still knows it. What the recipe does wrong is an outcome with an `error`.
 * @throws RametError when nobody can say how the step has ended
 */
export async function runStep(wish: StepWish, around: StepSurroundings): Promise<StepOutcome> {
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

async function carryOut(wish: StepWish, around: StepSurroundings, log: LogTail): Promise<Result> {
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
  { tag, context, fresh }: StepWish,
  { guest, signal }: StepSurroundings,
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
async function whatHasEnded({ started }: StepWish, { guest }: StepSurroundings): Promise<string | undefined> {
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
