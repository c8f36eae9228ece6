import { alerts } from "./alerts.ts";
import { dashboard } from "./dashboard.ts";
import type { InstallOptions } from "./install-options.ts";
import type { Manifest } from "./manifest.ts";

type Monitored = Pick<InstallOptions<unknown, unknown>, "namespace" | "monitoring">;

/** Returns a ServiceMonitor for all servers, the alerts, and the dashboard in a ConfigMap that Grafana's sidecar finds. */
export function monitoringManifests({ namespace, monitoring = false }: Monitored): Manifest[] {
  if (!monitoring) return [];
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
    {
      apiVersion,
      kind: "ServiceMonitor",
      metadata: { name, namespace },
      // The other Services with this label have no port of this name.
      spec: { selector: { matchLabels: { "app.kubernetes.io/name": "ramet" } }, endpoints: [{ port: "metrics" }] },
    },
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
