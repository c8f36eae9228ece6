import { subscribe } from "node:diagnostics_channel";
import { constants } from "node:http2";

/**
 * A signal that is aborted when Pulumi cancels the run: on Ctrl-C it calls `Cancel` of its process for dynamic resources, then
 * waits until their operations have ended. That process answers the call without telling providers
 * (`@pulumi/pulumi/cmd/dynamic-provider`), so the call is observed where Node reports each request to an HTTP/2 server.
 *
 * Call it once for each provider: it listens until the process ends.
 */
export function pulumiCancellation(): AbortSignal {
  const canceled = new AbortController();
  subscribe("http2.server.stream.start", (message) => {
    const { headers } = message as { headers: Record<string, unknown> };
    if (headers[constants.HTTP2_HEADER_PATH] === "/pulumirpc.ResourceProvider/Cancel") canceled.abort();
  });
  return canceled.signal;
}
