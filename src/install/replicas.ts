import type { Manifest } from "./manifest.ts";

/** Of Deployments whose Pods stand by for each other, whether one of them works or all: what their installations declare alike. */

type Labels = Record<string, string>;

/** Two on one machine would go together with it. */
export function spreadOverMachines(labels: Labels) {
  return [
    {
      maxSkew: 1,
      topologyKey: "kubernetes.io/hostname",
      whenUnsatisfiable: "ScheduleAnyway",
      labelSelector: { matchLabels: labels },
    },
  ];
}

/** Of a container that needs no right on its machine, and writes to its volumes alone. */
export const restrictedSecurityContext = {
  allowPrivilegeEscalation: false,
  readOnlyRootFilesystem: true,
  capabilities: { drop: ["ALL"] },
};

/** At most one of the Pods with these labels goes at a time when a machine is emptied. */
export function disruptionBudget<Metadata>(metadata: Metadata, labels: Labels) {
  const spec = { maxUnavailable: 1, selector: { matchLabels: labels } };
  return { apiVersion: "policy/v1", kind: "PodDisruptionBudget", metadata, spec };
}

/** The port of `/metrics`, `/livez`, `/healthz` and `/readyz` of each server. */
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
