import { metricsReaderLabels } from "../api/names/system-names.ts";
import { defined } from "../base/defined.ts";
import type { InstallOptions } from "./install-options.ts";
import type { Manifest } from "./manifest.ts";

/** The fields that the Deployments of servers have in common. */

type Labels = Record<string, string>;
interface Named {
  name: string;
  namespace: string;
}

/** A server of Ramet, which runs one container. */
interface ServerDeployment {
  at: Named;
  labels: Labels;
  annotations?: Record<string, string> | undefined;
  /** Further labels of the Pods. */
  podLabels?: Labels | undefined;
  replicas: unknown;
  image: unknown;
  /** The command of `ramet`, which names the container. */
  command: string;
  /** The command's arguments, except those of the metrics. */
  args: readonly unknown[];
  /** The port for HTTP. @default none */
  port?: number;
  readinessProbe: object;
  /** Further fields of the container. */
  container?: object;
  terminationGracePeriodSeconds?: number;
  /** The group of volumes' files. */
  fsGroup?: number;
  volumes?: readonly object[];
}

export function serverDeployment(server: ServerDeployment): Manifest {
  const { at, labels, annotations, podLabels, replicas, command, args, port, fsGroup, volumes } = server;
  const { terminationGracePeriodSeconds } = server;
  const spec = {
    serviceAccountName: at.name,
    ...defined({ terminationGracePeriodSeconds }),
    securityContext: {
      runAsNonRoot: true,
      runAsUser: 65532,
      ...defined({ fsGroup }),
      seccompProfile: { type: "RuntimeDefault" },
    },
    topologySpreadConstraints: spreadOverNodes(labels),
    containers: [
      {
        name: command,
        image: server.image,
        args: [command, ...args],
        ports: [
          ...(port === undefined ? [] : [{ name: "http", containerPort: port }]),
          { name: "metrics", containerPort: metricsPort },
        ],
        livenessProbe: { httpGet: { path: "/livez", port: "metrics" }, timeoutSeconds: 5 },
        readinessProbe: server.readinessProbe,
        resources: serverResources,
        securityContext: restrictedSecurityContext,
        ...server.container,
      },
    ],
    ...defined({ volumes }),
  };
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { ...at, labels, ...defined({ annotations }) },
    spec: {
      replicas,
      selector: { matchLabels: labels },
      template: { metadata: { labels: { ...labels, ...podLabels } }, spec },
    },
  };
}

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
const metricsPort = 9464;

/** The arguments of a server that open the port for metrics. */
export const metricsArguments = ["--metrics-port", String(metricsPort), "--metrics-address", "0.0.0.0"];

/** The Service through which Prometheus discovers the Pods with these labels. */
export function metricsService({ name, namespace }: Named, labels: Labels): Manifest {
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name: `${name}-metrics`, namespace, labels },
    spec: { selector: labels, ports: [{ name: "metrics", port: metricsPort, targetPort: "metrics" }] },
  };
}

/**
 * The ingress rule of a NetworkPolicy for the metrics port. The kubelet's probes are not subject to policies. Metrics name
 * namespaces and objects of all tenants, so a Pod of a tenant must not read them.
 */
export function metricsIngress({
  metricsNamespace,
  metricsFromAllNamespaces = false,
}: Pick<InstallOptions<unknown, unknown>, "metricsNamespace" | "metricsFromAllNamespaces">) {
  const matchLabels =
    metricsNamespace === undefined ? metricsReaderLabels : { "kubernetes.io/metadata.name": metricsNamespace };
  const from = [{ namespaceSelector: { matchLabels } }];
  return { ports: [{ port: "metrics", protocol: "TCP" }], ...(!metricsFromAllNamespaces && { from }) };
}

/** Allows ingress by these rules only. Egress is not restricted. */
export function ingressPolicy(metadata: Named, labels: Labels, ingress: readonly object[]): Manifest {
  return {
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata,
    spec: { podSelector: { matchLabels: labels }, policyTypes: ["Ingress"], ingress },
  };
}

/**
 * The memory of a controller or a gateway. They use about 120 MiB, more with many sandboxes. The limit is far above that: whoever
 * makes a server use memory without end gets a restart of this replica, and not the memory of its node.
 */
const serverResources = {
  requests: { cpu: "100m", memory: "128Mi" },
  limits: { memory: "1Gi" },
};
