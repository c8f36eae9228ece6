import { untilAborted } from "../../base/clock.ts";
import { mcpHttpDialect } from "../../client-api/dialects/mcp/http-dialect.ts";
import { Callers } from "../../client-api/keys/callers.ts";
import { RequestRates } from "../../client-api/keys/request-rate.ts";
import { clientApiMetrics, type ClientApiMetrics } from "../../client-api/metrics.ts";
import { guestSecretReader } from "../../client-api/run.ts";
import { serveClientApi } from "../../client-api/server.ts";
import { withService } from "../../client-api/service/parts.ts";
import { Cluster, type ClusterOptions } from "../cluster/cluster.ts";
import { type AccessFlags, gatewayWithoutToken } from "../cluster/gateway-credentials.ts";
import { type Io, printLine } from "../io.ts";
import { packageVersion } from "../package-version.ts";
import { runServerProcess, type ServerContext } from "../server/server-process.ts";
import { longestLifeSeconds } from "./longest-life.ts";

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
  const cluster = new Cluster(client, client.namespace);
  await withService({ client, namespaces, others: [callers.informer], log, signal }, async (service) => {
    const dialect = mcpHttpDialect({
      service,
      callers,
      rates: new RequestRates(client.clock),
      guestSecret: guestSecretReader(client),
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
