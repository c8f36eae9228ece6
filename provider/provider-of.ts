import { subscribe } from "node:diagnostics_channel";
import { constants } from "node:http2";
import { visible } from "../src/base/visible.ts";
import { clusterIdentity, inKnownCluster } from "./handlers/cluster-identity.ts";
import type { HandlerContext, ResourceHandler, StackConfiguration } from "./handlers/handler.ts";
import { withHints } from "./handlers/validate.ts";

/** The provider of a resource, for Pulumi's process for dynamic resources. */
export function providerOf(handler: (context: HandlerContext) => ResourceHandler) {
  return (configuration: StackConfiguration): ResourceHandler => {
    const signal = pulumiCancellation();
    const context = { configuration, environment: process.env, log: logToStdout, signal };
    return withHints(inKnownCluster(handler(context), context, clusterIdentity(context)));
  };
}

/** Pulumi shows the standard output of this process to the user during an operation. */
function logToStdout(line: string): void {
  process.stdout.write(`${visible(line)}\n`);
}

/**
 * A signal that is aborted when Pulumi cancels the run: on Ctrl-C it calls `Cancel` of its process for dynamic resources, then
 * waits until their operations have ended. That process answers the call without telling providers
 * (`@pulumi/pulumi/cmd/dynamic-provider`), so the call is observed where Node reports each request to an HTTP/2 server.
 *
 * Call it once for each provider: it listens until the process ends.
 */
function pulumiCancellation(): AbortSignal {
  const canceled = new AbortController();
  subscribe("http2.server.stream.start", (message) => {
    const { headers } = message as { headers: Record<string, unknown> };
    if (headers[constants.HTTP2_HEADER_PATH] === "/pulumirpc.ResourceProvider/Cancel") canceled.abort();
  });
  return canceled.signal;
}
