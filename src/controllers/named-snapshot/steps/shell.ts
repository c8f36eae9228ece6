import { RametError } from "../../../base/errors.ts";
import type { StepContext } from "./step.ts";

/** How the guest is asked to run a command line of a recipe. */
export function shell(commandLine: string, context: StepContext, tag: string) {
  const { environment, workingDirectory } = context;
  return {
    command: "/bin/sh",
    args: ["-c", commandLine],
    environment,
    ...(workingDirectory !== undefined && { workingDirectory }),
    tag,
  };
}

/** The controller that began it is gone, and the guest has forgotten it: it may have ended, or never have begun. */
export function unknownEnd(commandLine: string): RametError {
  const what = `how ${JSON.stringify(commandLine.slice(0, 80))} has ended is not known any more`;
  return new RametError("SandboxLost", `The step cannot go on: ${what}`);
}
