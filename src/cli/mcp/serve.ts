import { once } from "node:events";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { pino } from "pino";
import { limitsOfKey } from "../../api/keys/api-key-rules.ts";
import { untilAborted } from "../../base/clock.ts";
import { gatewayGuest } from "../../cell/client/gateway-guest.ts";
import { mcpHttpDialect } from "../../client-api/dialects/mcp/http-dialect.ts";
import { mcpServer } from "../../client-api/dialects/mcp/mcp-server.ts";
import type { Actor } from "../../client-api/dialects/mcp/tool.ts";
import { Callers } from "../../client-api/keys/callers.ts";
import { type ClientApiMetrics, clientApiMetrics } from "../../client-api/metrics.ts";
import { serveClientApi } from "../../client-api/server.ts";
import { sandboxIdOf } from "../../client-api/service/find-sandbox.ts";
import { withService } from "../../client-api/service/parts.ts";
import { guestSecretReader } from "../../kube/system-reader.ts";
import { Cluster, type ClusterOptions, withCluster } from "../cluster/cluster.ts";
import { type AccessFlags, gatewayCredentials, gatewayWithoutToken } from "../cluster/gateway-credentials.ts";
import { type Io, printLine } from "../io.ts";
import { packageVersion } from "../package-version.ts";
import { exitCodes } from "../report-error.ts";
import { type ServerContext, runServerProcess } from "../server/server-process.ts";

/** The longest life of a sandbox that a client of tools can request. */
function longestLifeSeconds(milliseconds = 30 * 86_400_000): number {
  return Math.max(1, Math.floor(milliseconds / 1000));
}

export interface McpHttpOptions extends ClusterOptions, Pick<AccessFlags, "gateway"> {
  port: number;
  address: string;
  allowedHost?: string[];
  /** Milliseconds. */
  maxLifetime?: number;
  logLevel: string;
}

/** `ramet mcp --http`: serves clients with API keys until it receives a signal. Prints its address. */
export async function serveMcpHttp(io: Io, options: McpHttpOptions): Promise<number> {
  return runServerProcess(io, { name: "mcp", settings: options, metrics: clientApiMetrics() }, (context) =>
    serve(io, options, context),
  );
}

async function serve(io: Io, options: McpHttpOptions, context: ServerContext<ClientApiMetrics>): Promise<void> {
  const { client, metrics, log, signal } = context;
  const { port, address, allowedHost = [], namespace } = options;
  const namespaces = namespace === undefined ? undefined : [namespace];
  const callers = new Callers(client, { log, namespaces });
  const cluster = new Cluster(client, client.namespace, { signal: io.signal });
  await withService({ client, namespaces, others: [callers.informer], log, signal }, async (service) => {
    const dialect = mcpHttpDialect({
      service,
      callers,
      guestSecret: guestSecretReader(client, "this user"),
      gateway: () => gatewayWithoutToken(io, cluster, options),
      hosts: [address, ...allowedHost],
      maxLifeSeconds: longestLifeSeconds(options.maxLifetime),
      version: packageVersion(),
    });
    const server = await serveClientApi({ port, address, dialects: [dialect], metrics, clock: client.clock, log });
    printLine(io.stdout, `http://${address.includes(":") ? `[${address}]` : address}:${server.port}/mcp`);
    await untilAborted(signal);
    await server.close();
  });
}

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
    key: "mcp",
    limits: limitsOfKey({}),
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
