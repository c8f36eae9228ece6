import { type ResourceHandler, logToStdout, type StackConfiguration } from "./handlers/handler.ts";
import { readinessHandler } from "./handlers/readiness/handler.ts";
import { withHints } from "./handlers/validate.ts";
import { pulumiCancellation } from "./pulumi-cancellation.ts";

/** Loaded by the state of every stack with a SandboxSet or a Sandbox; see `dynamic-provider.ts`. */
export function provider(configuration: StackConfiguration): ResourceHandler {
  const signal = pulumiCancellation();
  return withHints(readinessHandler({ configuration, environment: process.env, log: logToStdout, signal }));
}
