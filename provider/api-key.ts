import { apiKeyHandler } from "./handlers/api-key/handler.ts";
import { type ResourceHandler, logToStdout, type StackConfiguration } from "./handlers/handler.ts";
import { withHints } from "./handlers/validate.ts";
import { pulumiCancellation } from "./pulumi-cancellation.ts";

/** Loaded by the state of every stack with an ApiKey; see `dynamic-provider.ts`. */
export function provider(configuration: StackConfiguration): ResourceHandler {
  const signal = pulumiCancellation();
  return withHints(apiKeyHandler({ configuration, environment: process.env, log: logToStdout, signal }));
}
