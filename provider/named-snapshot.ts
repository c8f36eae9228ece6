import { type ResourceHandler, logToStdout, type StackConfiguration } from "./handlers/handler.ts";
import { namedSnapshotHandler } from "./handlers/named-snapshot/handler.ts";
import { withHints } from "./handlers/validate.ts";
import { pulumiCancellation } from "./pulumi-cancellation.ts";

/** Loaded by the state of every stack with a NamedSnapshot; see `dynamic-provider.ts`. */
export function provider(configuration: StackConfiguration): ResourceHandler {
  const signal = pulumiCancellation();
  return withHints(namedSnapshotHandler({ configuration, environment: process.env, log: logToStdout, signal }));
}
