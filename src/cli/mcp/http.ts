import { type Logger, pino } from "pino";
import { untilAborted } from "../../base/clock.ts";
import { mcpHttpDialect } from "../../client-api/dialects/mcp/http-dialect.ts";
import { Callers } from "../../client-api/keys/callers.ts";
import { RequestRates } from "../../client-api/keys/request-rate.ts";
import { clientApiMetrics, type ClientApiMetrics } from "../../client-api/metrics.ts";
import { guestSecretReader } from "../../client-api/run.ts";
import { serveClientApi } from "../../client-api/server.ts";
import { withService } from "../../client-api/service/parts.ts";
import { KubeClient } from "../../kube/kube-client.ts";
import { Cluster, type ClusterOptions } from "../cluster/cluster.ts";
import { type AccessFlags, gatewayWithoutToken } from "../cluster/gateway-credentials.ts";
import { type Io, printLine } from "../io.ts";
import { packageVersion } from "../package-version.ts";
import { runServer, serverConnection } from "../server/server-process.ts";
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
  const log = pino({ name: "mcp", level: options.logLevel }, io.stderr);
  const metrics = clientApiMetrics();
  const { onRequest } = metrics;
  const connection = await serverConnection(io, options);
  const client = new KubeClient(connection, { userAgent: "ramet-mcp", clock: io.clock, onRequest });
  try {
    return await runServer(io, log, (signal) => serve(io, options, { client, metrics, log, signal }));
  } finally {
    await client.close();
  }
}

interface Serving {
  client: KubeClient;
  metrics: ClientApiMetrics;
  log: Logger;
  signal: AbortSignal;
}

async function serve(io: Io, options: McpHttpOptions, { client, metrics, log, signal }: Serving): Promise<void> {
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
