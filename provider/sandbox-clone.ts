import { type ResourceHandler, logToStdout, type StackConfiguration } from "./handlers/handler.ts";
import { sandboxCloneHandler } from "./handlers/sandbox-clone/handler.ts";
import { withHints } from "./handlers/validate.ts";
import { pulumiCancellation } from "./pulumi-cancellation.ts";

/** Loaded by the state of every stack with a SandboxClone; see `dynamic-provider.ts`. */
export function provider(configuration: StackConfiguration): ResourceHandler {
  const signal = pulumiCancellation();
  return withHints(sandboxCloneHandler({ configuration, environment: process.env, log: logToStdout, signal }));
}
