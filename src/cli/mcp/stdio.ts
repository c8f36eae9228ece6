import { once } from "node:events";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { pino } from "pino";
import { gatewayGuest } from "../../cell/client/gateway-guest.ts";
import type { Actor } from "../../client-api/dialects/mcp/actor.ts";
import { mcpServer } from "../../client-api/dialects/mcp/mcp-server.ts";
import { sandboxIdOf } from "../../client-api/service/find-sandbox.ts";
import { withService } from "../../client-api/service/parts.ts";
import { type Cluster, type ClusterOptions, withCluster } from "../cluster/cluster.ts";
import { type AccessFlags, gatewayCredentials } from "../cluster/gateway-credentials.ts";
import { exitCodes } from "../exit-codes.ts";
import type { Io } from "../io.ts";
import { packageVersion } from "../package-version.ts";
import { longestLifeSeconds } from "./longest-life.ts";

export interface McpStdioOptions extends ClusterOptions, AccessFlags {
  /** Milliseconds. */
  maxLifetime?: number;
  logLevel: string;
}

/** `ramet mcp`: serves one client, until it closes stdin. */
export async function serveMcpStdio(io: Io, options: McpStdioOptions): Promise<number> {
  const log = pino({ name: "mcp", level: options.logLevel }, io.stderr);
  await withCluster(io, { ...options, connections: 32 }, (cluster) => {
    const { client, namespace } = cluster;
    return withService({ client, namespaces: [namespace], log, signal: io.signal }, async (service) => {
      const server = mcpServer({
        service,
        actor: userOf(io, cluster, options),
        maxLifeSeconds: longestLifeSeconds(options.maxLifetime),
        version: packageVersion(),
      });
      const ended = once(io.stdin, "end", { signal: io.signal }).catch(() => undefined);
      await server.connect(new StdioServerTransport(io.stdin, io.stdout));
      await ended;
      await server.close();
    });
  });
  return io.signal.aborted ? exitCodes.interrupted : exitCodes.ok;
}

/** The user of the kubeconfig. The API server and the gateway check the rights. */
function userOf(io: Io, cluster: Cluster, flags: AccessFlags): Actor {
  return {
    namespace: cluster.namespace,
    owner: "mcp",
    require: () => Promise.resolve(),
    guest: async (sandbox, { user, signal }) =>
      gatewayGuest({
        gateway: await gatewayCredentials(io, cluster, flags),
        sandboxId: sandboxIdOf(sandbox),
        isKnownReady: true,
        clock: io.clock,
        user,
        signal,
      }),
  };
}
