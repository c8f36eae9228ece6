import { pino } from "pino";
import type { Registry } from "prom-client";
import type { Log } from "../../base/log.ts";
import type { Server } from "../../install/setting-values.ts";
import { inClusterConnection, type Connection } from "../../kube/connection.ts";
import { KubeClient, type KubeClientOptions } from "../../kube/kube-client.ts";
import { connectionFromKubeconfig } from "../../kube/kubeconfig.ts";
import { Liveness } from "../../kube/liveness.ts";
import type { ClusterOptions } from "../cluster/cluster.ts";
import { kubeconfigSource } from "../cluster/kubeconfig-source.ts";
import { exitCodes } from "../report-error.ts";
import type { Io } from "../io.ts";
import { type HealthServer, serveHealth } from "./health.ts";

interface ServerProcess<Metrics> {
  name: Server | "mcp";
  settings: Pick<ClusterOptions, "kubeconfig" | "context"> & {
    logLevel: string;
    /** The port of /livez, /healthz, /readyz and /metrics. @default none is opened */
    metricsPort?: number | undefined;
    metricsAddress?: string;
  };
  metrics: Metrics;
}

/** The objects that every server receives from its process. */
export interface ServerContext<Metrics> {
  client: KubeClient;
  metrics: Metrics;
  /** Fails if something has stopped that only a restart brings back. */
  liveness: Liveness;
  log: Log;
  setReady: HealthServer["setReady"];
  signal: AbortSignal;
}

/** Runs a server with its client, its log, its probes and its metrics until it receives a signal. Logs JSON lines to stderr. */
export async function runServerProcess<Metrics extends ServerMetrics>(
  io: Io,
  { name, settings, metrics }: ServerProcess<Metrics>,
  serve: (context: ServerContext<Metrics>) => Promise<void>,
): Promise<number> {
  const log = pino({ name, level: settings.logLevel }, io.stderr);
  const client = new KubeClient(await serverConnection(io, settings), {
    userAgent: `ramet-${name}`,
    clock: io.clock,
    onRequest: metrics.onRequest,
  });
  const liveness = new Liveness(io.clock);
  const { metricsPort: port, metricsAddress: address = "127.0.0.1" } = settings;
  const { registry } = metrics;
  const health = port === undefined ? undefined : await serveHealth({ port, address, registry, liveness, log });
  const setReady: HealthServer["setReady"] = (isReady, why) => health?.setReady(isReady, why);
  try {
    return await runServer(io, log, (signal) => serve({ client, metrics, liveness, log, setReady, signal }));
  } finally {
    await health?.close();
    await client.close();
  }
}

interface ServerMetrics {
  registry: Registry;
  onRequest: NonNullable<KubeClientOptions["onRequest"]>;
}

/** The options of a server that accepts connections. @param what the server: `the gateway` */
export function listening(
  what: string,
  { port, address, shutdownDelay }: { port: number; address: string; shutdownDelay: number },
  { log, setReady }: Pick<ServerContext<unknown>, "log" | "setReady">,
) {
  return {
    port,
    address,
    shutdownDelayMilliseconds: shutdownDelay * 1000,
    onReady: (opened: number) => {
      setReady(true);
      log.info({ address, port: opened }, `${what} accepts connections`);
    },
    onEnding: () => {
      setReady(false);
      log.info({}, `${what} is shutting down`);
    },
  };
}

/**
 * Runs a server until `io.signal` aborts. An exception that nothing has caught is logged with its stack and starts the same
 * shutdown, because Node would otherwise end the process and with it the requests of all others.
 * @returns the exit code, which is that of a failure after such an exception
 */
export async function runServer(io: Io, log: Log, serve: (signal: AbortSignal) => Promise<void>): Promise<number> {
  const failing = new AbortController();
  let failures = 0;
  let cancelExit = (): void => undefined;
  const fail = (error: unknown): void => {
    failures += 1;
    if (failures <= mostLogged) log.error({ err: error }, "the server shuts down because of an unexpected error");
    if (failures > 1) return;
    failing.abort();
    cancelExit = io.clock.schedule(shutdownMilliseconds, () => process.exit(exitCodes.failed));
  };
  process.on("uncaughtException", fail).on("unhandledRejection", fail);
  try {
    await serve(AbortSignal.any([io.signal, failing.signal]));
    return failures === 0 ? exitCodes.ok : exitCodes.failed;
  } finally {
    cancelExit();
    process.off("uncaughtException", fail).off("unhandledRejection", fail);
  }
}

/** Longer than a gateway takes for its shutdown. */
const shutdownMilliseconds = 30_000;
/** An output that cannot be written fails with each line. */
const mostLogged = 10;

/** In a Pod, its service account; else as for every other command. */
async function serverConnection(
  io: Io,
  { kubeconfig, context }: Pick<ClusterOptions, "kubeconfig" | "context">,
): Promise<Connection> {
  const { environment, clock } = io;
  const isPod = environment["KUBERNETES_SERVICE_HOST"] !== undefined;
  if (isPod && kubeconfig === undefined && environment["KUBECONFIG"] === undefined) {
    return inClusterConnection({ environment, clock });
  }
  const source = await kubeconfigSource(environment, kubeconfig);
  return connectionFromKubeconfig({ ...source, clock, ...(context === undefined ? {} : { context }) });
}
