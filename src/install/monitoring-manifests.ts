import { alerts } from "./alerts.ts";
import { dashboard } from "./dashboard.ts";
import type { Manifest } from "./manifest.ts";

/**
 * Returns a ServiceMonitor for each server, the alerts and the dashboard, for the Prometheus operator and for Grafana with its sidecar.
 * @param servers the labels of the Pods by the name of their server
 */
export function monitoringManifests(
  namespace: string,
  servers: Readonly<Record<string, Record<string, string>>>,
): Manifest[] {
  const apiVersion = "monitoring.coreos.com/v1";
  const name = "ramet";
  const rules = Object.entries(alerts).map(([alert, { expr, severity, summary, action, ...rest }]) => ({
    alert,
    expr,
    for: rest.for,
    labels: { severity },
    annotations: { summary, description: `${action}.` },
  }));
  return [
    ...Object.entries(servers).map(([server, matchLabels]) => ({
      apiVersion,
      kind: "ServiceMonitor",
      metadata: { name: server, namespace },
      spec: { selector: { matchLabels }, endpoints: [{ port: "metrics" }] },
    })),
    { apiVersion, kind: "PrometheusRule", metadata: { name, namespace }, spec: { groups: [{ name, rules }] } },
    {
      apiVersion: "v1",
      kind: "ConfigMap",
      // The label that Grafana's sidecar looks for by default.
      metadata: { name: "ramet-dashboard", namespace, labels: { grafana_dashboard: "1" } },
      data: { "ramet.json": JSON.stringify(dashboard(), undefined, 1) },
    },
  ];
}
