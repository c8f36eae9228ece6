import { renderCrds } from "../api/kinds/crd.ts";
import { labels as cellLabels } from "../api/names/labels.ts";
import { systemNamespace } from "../api/names/system-names.ts";
import { cellPort } from "../api/wire/cell-api.ts";
import { admissionPolicies } from "./admission-policies.ts";
import { controllerManifests, nodeCacheSweeper } from "./controller-manifests.ts";
import { controllerRights } from "./controller-rights.ts";
import { clientApiManifests, gatewayManifests } from "./http-server-manifests.ts";
import { clientRole } from "./http-server-rights.ts";
import { type InstallOptions, identityAnnotations, identityLabels } from "./install-options.ts";
import type { Manifest } from "./manifest.ts";
import { monitoringManifests } from "./monitoring-manifests.ts";
import { serverArguments } from "./setting-values.ts";

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

/** Tells Argo CD, Flux and Helm not to delete an object. (Source: their documentation of sync options, pruning and resource policies.) */
function kept(objectName: string, own: Record<string, string> = {}): Pick<Manifest, "metadata"> {
  const annotations = {
    ...own,
    "argocd.argoproj.io/sync-options": "Prune=false,Delete=false",
    "kustomize.toolkit.fluxcd.io/prune": "disabled",
    "helm.sh/resource-policy": "keep",
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

/** Returns the servers, their permissions, the admission policies, and the role of users of the client API. */
export function serverManifests(options: InstallOptions<unknown, unknown>): Manifest[] {
  return [
    ...runtimeControllers(options),
    ...gatewayManifests(options),
    ...clientApiManifests(options),
    ...admissionPolicies(options),
    clientRole(),
    ...monitoringManifests(options),
  ];
}

/** Returns the controllers, their permissions, and the network policies of the cells in served namespaces. */
function runtimeControllers(options: InstallOptions<unknown, unknown>): Manifest[] {
  const { store, servedNamespaces } = options;
  return [
    ...controllerManifests(options, {
      rights: controllerRights(servedNamespaces, options),
      args: serverArguments("controller", { ...options, leaderElect: true }),
      store: storeAccess(store),
    }),
    ...nodeCacheSweeper(options),
    ...(servedNamespaces ?? []).map((served) => cellNetworkPolicy(served, options)),
  ];
}

type InNamespace = Pick<InstallOptions, "namespace">;
type Store = InstallOptions<unknown, unknown>["store"];

function storeAccess(store: Store) {
  if (!("address" in store)) return { mount: store };
  return {
    identityAnnotations: identityAnnotations(store),
    identityLabels: identityLabels(store),
    secret: store.secret,
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
