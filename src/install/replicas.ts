import type { Manifest } from "./manifest.ts";

/** Parts of a manifest that the Deployments of controllers and gateways share. */

type Labels = Record<string, string>;

/** Prefers different nodes, so that the failure of one node does not stop all replicas. */
export function spreadOverNodes(labels: Labels) {
  return [
    {
      maxSkew: 1,
      topologyKey: "kubernetes.io/hostname",
      whenUnsatisfiable: "ScheduleAnyway",
      labelSelector: { matchLabels: labels },
    },
  ];
}

/** For a container that needs no privileges and writes only to its volumes. */
export const restrictedSecurityContext = {
  allowPrivilegeEscalation: false,
  readOnlyRootFilesystem: true,
  capabilities: { drop: ["ALL"] },
};

/** Lets a node drain evict at most one of these Pods at a time. */
export function disruptionBudget<Metadata>(metadata: Metadata, labels: Labels) {
  const spec = { maxUnavailable: 1, selector: { matchLabels: labels } };
  return { apiVersion: "policy/v1", kind: "PodDisruptionBudget", metadata, spec };
}

/** The port of `/metrics`, `/livez`, `/healthz` and `/readyz` of each server. */
export const metricsPort = 9464;

/** The Service through which Prometheus discovers the Pods with these labels. */
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

/**
 * The memory of a controller or a gateway. They use about 120 MiB, more with many sandboxes. The limit is far above that: whoever
 * makes a server use memory without end gets a restart of this replica, and not the memory of its node.
 */
export const serverResources = {
  requests: { cpu: "100m", memory: "128Mi" },
  limits: { memory: "1Gi" },
};
