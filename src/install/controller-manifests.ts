import { controllerLabels as labels, controllerName as name } from "../api/names/system-names.ts";
import { defined } from "../base/defined.ts";
import type { InstallOptions, MountedStore } from "./install-options.ts";
import type { Manifest } from "./manifest.ts";
import {
  disruptionBudget,
  ingressPolicy,
  metricsArguments,
  metricsIngress,
  metricsService,
  restrictedSecurityContext,
  serverDeployment,
} from "./server-deployment.ts";
import { boundRole, type Rights, rights, roles } from "./rights.ts";

type CommonOptions = Pick<
  InstallOptions<unknown, unknown>,
  "namespace" | "annotations" | "image" | "replicas" | "metricsNamespace" | "metricsFromAllNamespaces"
>;

/** The differences between controllers that run the sandboxes and those that work beside others. */
interface ControllerServer {
  rights: Rights;
  /** The arguments of `ramet controller`, except those of the metrics. */
  args: readonly unknown[];
  /** How the controllers use the store. @default they use none */
  store?: StoreAccess;
}

/** How the controllers' Pods get to the store. */
interface StoreAccess {
  identityAnnotations?: Record<string, string>;
  identityLabels?: Record<string, string>;
  /** The Secret with environment variables for the store's client. */
  secret?: unknown;
  mount?: MountedStore<unknown>;
}

/** Returns the controllers and their permissions, whether or not they work beside other controllers. */
export function controllerManifests(
  options: CommonOptions,
  { rights, args, store = {} }: ControllerServer,
): Manifest[] {
  const { namespace, annotations } = options;
  const at = { name, namespace };
  return [
    serviceAccount(at, store),
    ...roles(at, rights, annotations),
    deployment(options, { args, store }),
    disruptionBudget(at, labels),
    metricsService(at, labels),
    // Controllers connect to the API server, cells, the store and URLs in recipes.
    ingressPolicy(at, labels, [metricsIngress(options)]),
  ];
}

function serviceAccount(at: { name: string; namespace: string }, { identityAnnotations = {} }: StoreAccess): Manifest {
  const isBound = Object.keys(identityAnnotations).length > 0;
  const metadata = { ...at, ...(isBound && { annotations: identityAnnotations }) };
  return { apiVersion: "v1", kind: "ServiceAccount", metadata };
}

function deployment(
  { namespace, annotations, replicas, image }: CommonOptions,
  { args, store: { identityLabels, mount, secret } = {} }: Omit<ControllerServer, "rights">,
): Manifest {
  return serverDeployment({
    at: { name, namespace },
    labels,
    annotations,
    podLabels: identityLabels,
    replicas,
    image,
    command: "controller",
    args: [...args, ...metricsArguments],
    // /readyz is ready only on the replica that leads; the others wait for the lease and are healthy.
    readinessProbe: { httpGet: { path: "/healthz", port: "metrics" } },
    container: {
      volumeMounts: [
        { name: "tmp", mountPath: "/tmp" },
        ...(mount ? [{ name: "store", mountPath: mount.directory }] : []),
      ],
      ...(secret !== undefined && { envFrom: [{ secretRef: { name: secret } }] }),
    },
    fsGroup: 65532,
    volumes: [
      // Recipe steps fetch up to eight files of up to 1 GiB into it; the root file system is read-only.
      { name: "tmp", emptyDir: { sizeLimit: "9Gi" } },
      ...(mount ? [{ name: "store", persistentVolumeClaim: { claimName: mount.claim } }] : []),
    ],
  });
}

export const sweeperName = "ramet-node-cache";
export const sweeperRights = rights("cluster", { "namespaces: list": "find the caches of deleted namespaces" });

/**
 * Returns what removes the caches of deleted namespaces from nodes: a cell has the directory of its own namespace only, and controllers
 * have none. The program reads the names and UIDs of namespaces, and nothing else of the cluster.
 */
export function nodeCacheSweeper({
  namespace,
  annotations,
  cellImage: image,
  cells,
}: Pick<InstallOptions<unknown, unknown>, "namespace" | "annotations" | "cellImage" | "cells">): Manifest[] {
  const path = cells?.nodeCachePath;
  if (path === undefined) return [];
  const at = { name: sweeperName, namespace };
  const matchLabels = { "app.kubernetes.io/name": at.name };
  const container = {
    name: "sweep",
    image,
    command: ["ramet-link", "sweep", "/cache"],
    resources: { requests: { cpu: "1m", memory: "16Mi" }, limits: { memory: "64Mi" } },
    // Sandboxes own the files.
    securityContext: {
      ...restrictedSecurityContext,
      runAsUser: 0,
      capabilities: { drop: ["ALL"], add: ["DAC_OVERRIDE", "FOWNER"] },
    },
    volumeMounts: [{ name: "cache", mountPath: "/cache" }],
  };
  const spec = {
    serviceAccountName: at.name,
    securityContext: { seccompProfile: { type: "RuntimeDefault" } },
    // Any node can have had sandboxes.
    tolerations: [{ operator: "Exists" }],
    terminationGracePeriodSeconds: 5,
    containers: [container],
    volumes: [{ name: "cache", hostPath: { path, type: "DirectoryOrCreate" } }],
  };
  return [
    serviceAccount(at, {}),
    ...boundRole(defined({ name: at.name, annotations }), sweeperRights, { kind: "ServiceAccount", ...at }),
    {
      apiVersion: "apps/v1",
      kind: "DaemonSet",
      metadata: { ...at, labels: matchLabels, ...defined({ annotations }) },
      spec: { selector: { matchLabels }, template: { metadata: { labels: matchLabels }, spec } },
    },
    ingressPolicy(at, matchLabels, []),
  ];
}
