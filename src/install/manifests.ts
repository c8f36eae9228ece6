import { cellPort } from "../api/cell/cell-api.ts";
import { renderCrds } from "../api/kinds/crd.ts";
import { labels as cellLabels } from "../api/names/labels.ts";
import { controllerLabels as labels, controllerName as name, systemNamespace } from "../api/names/system-names.ts";
import { quotaNames } from "../api/quota/namespace-quota.ts";
import { admissionPolicies } from "./cell-policies.ts";
import { gatewayManifests } from "./gateway-manifests.ts";
import type { CellSettings, InstalledEgress, InstallOptions, RegistrySettings } from "./install-options.ts";
import type { Manifest } from "./manifest.ts";
import { identityAnnotations, identityLabels } from "./remote-store.ts";
import {
  disruptionBudget,
  metricsIngress,
  metricsPort,
  metricsService,
  restrictedSecurityContext,
  servedFlags,
  serverResources,
  spreadOverNodes,
} from "./replicas.ts";
import { controllerRights, roles } from "./rights.ts";

/**
 * Returns the manifests that must outlive the runtime. With the CRDs, Kubernetes would delete all their objects. With the
 * namespaces, it would delete the key of running cells.
 * @param groups the API groups whose CRDs are included. Default: all
 */
export function lastingManifests({ namespace }: InNamespace, groups?: readonly string[]): Manifest[] {
  return [
    ...[...new Set([systemNamespace, namespace])].map((each) => ({
      apiVersion: "v1",
      kind: "Namespace",
      ...kept(each),
    })),
    ...renderCrds()
      .filter(({ spec }) => groups?.includes(spec.group) ?? true)
      .map((crd): Manifest => ({ ...crd, ...kept(crd.metadata.name, crd.metadata.annotations) })),
  ];
}

/** Tells Argo CD and Flux not to delete an object. (Source: their documentation of sync options and pruning.) */
function kept(objectName: string, own: Record<string, string> = {}): Pick<Manifest, "metadata"> {
  const annotations = {
    ...own,
    "argocd.argoproj.io/sync-options": "Prune=false,Delete=false",
    "kustomize.toolkit.fluxcd.io/prune": "disabled",
  };
  return { metadata: { name: objectName, annotations } };
}

/** Returns all manifests of the runtime, each after the objects that it needs. */
export function allManifests(options: InstallOptions): Manifest[] {
  return [...lastingManifests(options), ...serverManifests(options)];
}

/** The warning for an installation with a mounted store. */
export const storeIsNotMounted =
  "Sandboxes on this cluster run but cannot be checkpointed, because their Pods do not mount the store; to take checkpoints, use a store in a bucket";

/** Returns the servers, their permissions and the admission policies for cells. */
export function serverManifests(options: InstallOptions<unknown, unknown>): Manifest[] {
  return [...controllerManifests(options), ...gatewayManifests(options), ...admissionPolicies(options)];
}

/** Returns the controllers and their permissions. */
function controllerManifests(options: InstallOptions<unknown, unknown>): Manifest[] {
  return [
    serviceAccount(options),
    ...roles({ name, namespace: options.namespace }, controllerRights(options.servedNamespaces), options.annotations),
    deployment(options),
    disruptionBudget({ name, namespace: options.namespace }, labels),
    metricsService({ name, namespace: options.namespace }, labels),
    networkPolicy(options),
    ...(options.servedNamespaces ?? []).map((served) => cellNetworkPolicy(served, options)),
  ];
}

type InNamespace = Pick<InstallOptions, "namespace">;

function serviceAccount({ namespace, store }: Pick<InstallOptions<unknown, unknown>, "namespace" | "store">): Manifest {
  const annotations = "address" in store ? identityAnnotations(store) : {};
  return {
    apiVersion: "v1",
    kind: "ServiceAccount",
    metadata: { name, namespace, ...(Object.keys(annotations).length > 0 && { annotations }) },
  };
}

function deployment({ namespace, annotations, replicas, ...options }: InstallOptions<unknown, unknown>): Manifest {
  const podLabels = "address" in options.store ? identityLabels(options.store) : {};
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name, namespace, labels, ...(annotations !== undefined && { annotations }) },
    spec: {
      replicas,
      selector: { matchLabels: labels },
      template: { metadata: { labels: { ...labels, ...podLabels } }, spec: pod(options) },
    },
  };
}

type PodOptions = Pick<
  InstallOptions<unknown, unknown>,
  | "image"
  | "cellImage"
  | "store"
  | "clusterRanges"
  | "clusterDomain"
  | "namespaceSelector"
  | "egress"
  | "servedNamespaces"
  | "namespaceQuota"
  | "encryption"
  | "cells"
  | "registries"
>;

function pod({
  image,
  cellImage,
  store,
  clusterRanges,
  clusterDomain,
  namespaceSelector,
  egress,
  servedNamespaces,
  namespaceQuota,
  encryption,
  cells,
  registries,
}: PodOptions) {
  const mounted = "address" in store ? undefined : store;
  return {
    serviceAccountName: name,
    securityContext: {
      runAsNonRoot: true,
      runAsUser: 65532,
      fsGroup: 65532,
      seccompProfile: { type: "RuntimeDefault" },
    },
    topologySpreadConstraints: spreadOverNodes(labels),
    containers: [
      {
        name: "controller",
        image,
        args: [
          "controller",
          "--leader-elect",
          ...("address" in store ? ["--store", store.address] : ["--store-directory", store.directory]),
          "--cell-image",
          cellImage,
          ...cellFlags(cells),
          ...registryFlags(registries),
          ...clusterRanges.flatMap((range) => ["--cluster-range", range]),
          ...(clusterDomain === undefined ? [] : ["--cluster-domain", clusterDomain]),
          ...(namespaceSelector === undefined ? [] : ["--namespace-selector", namespaceSelector.text]),
          ...egressFlags(egress),
          ...servedFlags(servedNamespaces),
          ...quotaFlags(namespaceQuota),
          ...(encryption === undefined ? [] : ["--encryption-secret", encryption.secret]),
          "--metrics-port",
          String(metricsPort),
          "--metrics-address",
          "0.0.0.0",
        ],
        ports: [{ name: "metrics", containerPort: metricsPort }],
        // /readyz is ready only on the replica that leads; the others wait for the lease and are healthy.
        livenessProbe: { httpGet: { path: "/livez", port: "metrics" }, timeoutSeconds: 5 },
        readinessProbe: { httpGet: { path: "/healthz", port: "metrics" } },
        resources: serverResources,
        securityContext: restrictedSecurityContext,
        volumeMounts: [
          { name: "tmp", mountPath: "/tmp" },
          ...(mounted ? [{ name: "store", mountPath: mounted.directory }] : []),
        ],
        ...("address" in store && store.secret !== undefined && { envFrom: [{ secretRef: { name: store.secret } }] }),
      },
    ],
    volumes: [
      // Recipe steps fetch up to eight files of up to 1 GiB into it; the root file system is read-only.
      { name: "tmp", emptyDir: { sizeLimit: "9Gi" } },
      ...(mounted ? [{ name: "store", persistentVolumeClaim: { claimName: mounted.claim } }] : []),
    ],
  };
}

function cellFlags({ seccompProfile, userNamespaces, earlierImages = [] }: CellSettings<unknown> = {}): unknown[] {
  return [
    ...(seccompProfile === undefined ? [] : ["--cell-seccomp-profile", seccompProfile]),
    ...(userNamespaces === undefined ? [] : ["--cell-user-namespaces", userNamespaces]),
    ...earlierImages.flatMap((image) => ["--earlier-cell-image", image]),
  ];
}

function registryFlags({
  private: own = [],
  insecure = [],
  lookup,
  pullTimeout,
}: RegistrySettings<unknown> = {}): unknown[] {
  return [
    ...own.flatMap((registry) => ["--private-registry", registry]),
    ...insecure.flatMap((registry) => ["--insecure-registry", registry]),
    ...(lookup === false ? ["--no-image-lookup"] : []),
    ...(pullTimeout === undefined ? [] : ["--pull-timeout", pullTimeout]),
  ];
}

function egressFlags({ default: fallback, allow = [], deny = [] }: InstalledEgress<unknown> = {}) {
  return [
    ...(fallback === undefined ? [] : ["--egress-default", fallback]),
    ...allow.flatMap((rule) => ["--egress-allow", rule]),
    ...deny.flatMap((rule) => ["--egress-deny", rule]),
  ];
}

export function quotaFlags(quota: InstallOptions<unknown>["namespaceQuota"] = {}): unknown[] {
  const flags = {
    storeBytes: "--namespace-store-bytes",
    checkpoints: "--namespace-checkpoints",
    builds: "--namespace-builds",
    fetches: "--namespace-fetches",
  };
  return quotaNames.flatMap((name) => (quota[name] === undefined ? [] : [flags[name], quota[name]]));
}

/**
 * Allows ingress only to the metrics port. Egress is not restricted: controllers connect to the API server, cells, the store
 * and URLs in recipes.
 */
export function networkPolicy({
  namespace,
  metricsNamespace,
}: Pick<InstallOptions<unknown, unknown>, "namespace" | "metricsNamespace">): Manifest {
  return {
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: { name, namespace },
    spec: {
      podSelector: { matchLabels: labels },
      policyTypes: ["Ingress"],
      ingress: [metricsIngress(metricsNamespace)],
    },
  };
}

/** Allows only controllers and gateways to connect to the port of the cells in a namespace. Declared ports stay open. */
function cellNetworkPolicy(served: string, { namespace }: InNamespace): Manifest {
  const servers = { namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": namespace } } };
  return {
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: { name: "ramet-cells", namespace: served },
    spec: {
      podSelector: { matchLabels: { [cellLabels.cell]: "true" } },
      policyTypes: ["Ingress"],
      ingress: [
        { from: [servers], ports: [{ port: cellPort, protocol: "TCP" }] },
        {
          ports: [
            { port: 1, endPort: cellPort - 1, protocol: "TCP" },
            { port: cellPort + 1, endPort: 65_535, protocol: "TCP" },
          ],
        },
      ],
    },
  };
}
