import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import type { GatewayLimits } from "../../gateway/limits.ts";
import { gatewayMetrics } from "../../gateway/metrics.ts";
import { runGateway } from "../../gateway/run.ts";
import type { TlsFiles } from "../../gateway/tls.ts";
import { parseServedNamespaces } from "../../install/install-options.ts";
import type { Settings } from "../../install/setting-values.ts";
import type { Io } from "../io.ts";
import { listening, runServerProcess } from "./server-process.ts";

type GatewayFlags = Settings<"gateway">["gateway"];

/** `ramet gateway`: proxies traffic to sandboxes until it receives a signal. */
export function runGatewayProcess(io: Io, settings: Settings<"gateway">): Promise<number> {
  const { servedNamespaces: served, gateway } = settings;
  const servedNamespaces = served && parseServedNamespaces(served, "gateway");
  const tls = tlsOf(gateway);
  return runServerProcess(io, { name: "gateway", settings, metrics: gatewayMetrics() }, ({ setReady, ...context }) =>
    runGateway({
      ...context,
      ...listening("the gateway", gateway, { setReady, log: context.log }),
      limits: limitsOf(gateway),
      trustedProxies: gateway.trustedProxies ?? [],
      servedNamespaces,
      tls,
      clientApi: gateway.clientApi === undefined ? undefined : new URL(gateway.clientApi),
      reviewOnly: gateway.acceptTokensByReviewOnly ?? false,
      exec: gateway.exec ?? true,
    }),
  );
}

/** @throws RametError `InvalidArgument` if only one of the files is given */
function tlsOf({ tlsCertificate: certificate, tlsKey: key, tlsOptional }: GatewayFlags): TlsFiles | undefined {
  if (certificate !== undefined && key !== undefined) return { certificate, key, isOptional: tlsOptional ?? false };
  if (certificate === undefined && key === undefined && tlsOptional === true) {
    throw new RametError("InvalidArgument", "The flag --tls-certificate is missing: --tls-optional needs it");
  }
  if (certificate === undefined && key === undefined) return undefined;
  const [given, missing] = key === undefined ? ["--tls-certificate", "--tls-key"] : ["--tls-key", "--tls-certificate"];
  throw new RametError("InvalidArgument", `The flag ${missing} is missing: ${given} needs it`);
}

function limitsOf(gateway: GatewayFlags): Partial<GatewayLimits> {
  const { maxConnections, maxConnectionsPerClient, maxConnectionsPerNamespace, maxConnectionsPerSandbox } = gateway;
  return defined({
    connections: maxConnections,
    perClient: maxConnectionsPerClient,
    perNamespace: maxConnectionsPerNamespace,
    perSandbox: maxConnectionsPerSandbox,
  });
}
