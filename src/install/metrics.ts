import type { Manifest } from "./manifest.ts";

/** Where each server has `/metrics`, `/healthz` and `/readyz`. */
export const metricsPort = 9464;

/** By which Prometheus finds the servers with these labels. */
export function metricsService(
  { name, namespace }: { name: string; namespace: string },
  labels: Record<string, string>,
): Manifest {
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name: `${name}-metrics`, namespace, labels },
    spec: { selector: labels, ports: [{ name: "metrics", port: metricsPort, targetPort: "metrics" }] },
  };
}
