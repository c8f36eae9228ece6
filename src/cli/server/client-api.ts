import { pino } from "pino";
import { clientApiMetrics } from "../../client-api/metrics.ts";
import { runClientApi } from "../../client-api/run.ts";
import { parseServedNamespaces } from "../../install/install-options.ts";
import { KubeClient } from "../../kube/kube-client.ts";
import { Liveness } from "../../kube/liveness.ts";
import type { ClusterOptions } from "../cluster/cluster.ts";
import type { Io } from "../io.ts";
import { serveHealth } from "./health.ts";
import { runServer, serverConnection } from "./server-process.ts";

export interface ClientApiOptions extends Pick<ClusterOptions, "kubeconfig" | "context"> {
  port: number;
  address: string;
  domain?: string;
  gateway?: string;
  templateAlias?: ReadonlyMap<string, string>;
  /** Milliseconds. */
  maxTimeout?: number;
  /** Seconds. */
  shutdownDelay: number;
  servedNamespace?: string[];
  /** Port of /livez, /healthz, /readyz and /metrics. @default none is opened */
  metricsPort?: number;
  metricsAddress: string;
  logLevel: string;
}

/** `ramet client-api`: serves the APIs of clients until it receives a signal. Logs JSON lines to stderr. */
export async function runClientApiProcess(io: Io, options: ClientApiOptions): Promise<number> {
  const { port, address, domain, metricsPort, metricsAddress, logLevel, servedNamespace, maxTimeout } = options;
  const servedNamespaces = servedNamespace && parseServedNamespaces(servedNamespace, "--served-namespace");
  const log = pino({ name: "client-api", level: logLevel }, io.stderr);
  const metrics = clientApiMetrics();
  const connection = await serverConnection(io, options);
  const { onRequest, registry } = metrics;
  const client = new KubeClient(connection, { userAgent: "ramet-client-api", clock: io.clock, onRequest });
  const liveness = new Liveness(io.clock);
  const health =
    metricsPort === undefined
      ? undefined
      : await serveHealth({ port: metricsPort, address: metricsAddress, registry, liveness, log });
  try {
    return await runServer(io, log, (signal) =>
      runClientApi({
        client,
        port,
        address,
        domain,
        servedNamespaces,
        gateway: options.gateway,
        metrics,
        liveness,
        log,
        ...(options.templateAlias && { templateAliases: options.templateAlias }),
        ...(maxTimeout !== undefined && { maxLifeSeconds: Math.floor(maxTimeout / 1000) }),
        shutdownDelayMilliseconds: options.shutdownDelay * 1000,
        onReady: (opened) => {
          health?.setReady(true);
          log.info({ address, port: opened }, "the client API accepts connections");
        },
        onEnding: () => {
          health?.setReady(false);
          log.info({}, "the client API is shutting down");
        },
        signal,
      }),
    );
  } finally {
    await health?.close();
    await client.close();
  }
}
