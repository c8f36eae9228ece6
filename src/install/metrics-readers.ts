import { metricsReaderLabels } from "../api/names/system-names.ts";
import { RametError } from "../base/errors.ts";

/** Which Pods can connect to the metrics ports. Without a setting, those in namespaces with `metricsReaderLabels`. */
export interface MetricsReaders<Text = string> {
  /** The namespace of Prometheus, the only one that can connect. */
  metricsNamespace?: Text | undefined;
  /** Whether all Pods can connect. */
  metricsFromAllNamespaces?: boolean | undefined;
}

/** @throws RametError `InvalidArgument` if both settings are given */
export function requireOne(given: MetricsReaders<unknown>, name: string): void {
  if (given.metricsNamespace === undefined || given.metricsFromAllNamespaces !== true) return;
  throw new RametError("InvalidArgument", `${name} names one namespace, but all namespaces are to read metrics`, {
    hint: "Set one of the two",
  });
}

/**
 * The ingress rule of a NetworkPolicy for the metrics port. The kubelet's probes are not subject to policies. Metrics name
 * namespaces and objects of all tenants, so a Pod of a tenant must not read them.
 */
export function metricsIngress({ metricsNamespace, metricsFromAllNamespaces = false }: MetricsReaders<unknown>) {
  const matchLabels =
    metricsNamespace === undefined ? metricsReaderLabels : { "kubernetes.io/metadata.name": metricsNamespace };
  const from = [{ namespaceSelector: { matchLabels } }];
  return { ports: [{ port: "metrics", protocol: "TCP" }], ...(!metricsFromAllNamespaces && { from }) };
}
