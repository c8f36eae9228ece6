import { copyMode, type CopyStep } from "../../../api/recipe/copy-step.ts";
import { LogTail } from "./log-tail.ts";
import { runCommand } from "./run-command.ts";
import type { StepSurroundings, StepWish } from "./step-request.ts";
import type { StepOutcome } from "./step-outcome.ts";

/** Writes the file, and gives it its mode where it is not the one that files have anyway. It can be repeated. */
export async function copyFile(
  copy: CopyStep,
  { context, tag }: StepWish,
  around: StepSurroundings,
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
