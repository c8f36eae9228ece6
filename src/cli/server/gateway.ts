import { pino } from "pino";
import { RametError } from "../../base/errors.ts";
import type { GatewayLimits } from "../../gateway/limits.ts";
import { gatewayMetrics } from "../../gateway/metrics.ts";
import { runGateway } from "../../gateway/run.ts";
import { parseServedNamespaces } from "../../install/install-options.ts";
import type { TlsFiles } from "../../gateway/tls.ts";
import { KubeClient } from "../../kube/kube-client.ts";
import { Liveness } from "../../kube/liveness.ts";
import type { ClusterOptions } from "../cluster/cluster.ts";
import type { Io } from "../io.ts";
import { serveHealth } from "./health.ts";
import { runServer, serverConnection } from "./server-process.ts";

export interface GatewayOptions extends Pick<ClusterOptions, "kubeconfig" | "context"> {
  port: number;
  address: string;
  /** Seconds. */
  shutdownDelay: number;
  maxConnections?: number;
  maxConnectionsPerClient?: number;
  maxConnectionsPerNamespace?: number;
  maxConnectionsPerSandbox?: number;
  trustedProxy?: string[];
  servedNamespace?: string[];
  tlsCertificate?: string;
  tlsKey?: string;
  tlsOptional?: boolean;
  acceptTokensByReviewOnly?: boolean;
  clientApi?: URL;
  /** @default true */
  exec: boolean;
  /** Port of /livez, /healthz, /readyz and /metrics. @default none is opened */
  metricsPort?: number;
  metricsAddress: string;
  logLevel: string;
}

/** `ramet gateway`: proxies traffic to sandboxes until it receives a signal. Logs JSON lines to stderr. */
export async function runGatewayProcess(io: Io, options: GatewayOptions): Promise<number> {
  const { port, address, shutdownDelay, metricsPort, metricsAddress, logLevel, servedNamespace } = options;
  const servedNamespaces = servedNamespace && parseServedNamespaces(servedNamespace, "--served-namespace");
  const log = pino({ name: "gateway", level: logLevel }, io.stderr);
  const metrics = gatewayMetrics();
  const { registry } = metrics;
  const connection = await serverConnection(io, options);
  const client = new KubeClient(connection, {
    userAgent: "ramet-gateway",
    clock: io.clock,
    onRequest: metrics.onRequest,
  });
  const liveness = new Liveness(io.clock);
  const health =
    metricsPort === undefined
      ? undefined
      : await serveHealth({ port: metricsPort, address: metricsAddress, registry, liveness, log });
  try {
    return await runServer(io, log, (signal) =>
      runGateway({
        client,
        port,
        address,
        metrics,
        limits: limitsOf(options),
        trustedProxies: options.trustedProxy ?? [],
        servedNamespaces,
        tls: tlsOf(options),
        clientApi: options.clientApi,
        reviewOnly: options.acceptTokensByReviewOnly ?? false,
        exec: options.exec,
        liveness,
        log,
        shutdownDelayMilliseconds: shutdownDelay * 1000,
        onReady: (opened) => {
          health?.setReady(true);
          log.info({ address, port: opened }, "the gateway accepts connections");
        },
        onEnding: () => {
          health?.setReady(false);
          log.info({}, "the gateway is shutting down");
        },
        signal,
      }),
    );
  } finally {
    await health?.close();
    await client.close();
  }
}

/** @throws RametError `InvalidArgument` if only one of the files is given */
function tlsOf({ tlsCertificate: certificate, tlsKey: key, tlsOptional }: GatewayOptions): TlsFiles | undefined {
  if (certificate !== undefined && key !== undefined) return { certificate, key, isOptional: tlsOptional ?? false };
  if (certificate === undefined && key === undefined && tlsOptional === true) {
    throw new RametError("InvalidArgument", "The flag --tls-certificate is missing: --tls-optional needs it");
  }
  if (certificate === undefined && key === undefined) return undefined;
  const [given, missing] = key === undefined ? ["--tls-certificate", "--tls-key"] : ["--tls-key", "--tls-certificate"];
  throw new RametError("InvalidArgument", `The flag ${missing} is missing: ${given} needs it`);
}

function limitsOf(options: GatewayOptions): Partial<GatewayLimits> {
  const { maxConnections, maxConnectionsPerClient, maxConnectionsPerNamespace, maxConnectionsPerSandbox } = options;
  return {
    ...(maxConnections !== undefined && { connections: maxConnections }),
    ...(maxConnectionsPerClient !== undefined && { perClient: maxConnectionsPerClient }),
    ...(maxConnectionsPerNamespace !== undefined && { perNamespace: maxConnectionsPerNamespace }),
    ...(maxConnectionsPerSandbox !== undefined && { perSandbox: maxConnectionsPerSandbox }),
  };
}
