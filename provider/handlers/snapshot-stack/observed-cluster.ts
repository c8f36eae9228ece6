import { clusterRef, namespacedRef, type ResourceRef } from "../../../src/kube/resource-ref.ts";
import type { HeldLease } from "../../../src/kube/other-controllers.ts";
import type {
  ObservedClass,
  ObservedController,
  ObservedCrd,
  ObservedWebhook,
} from "../../../src/preflight/snapshot-objects.ts";

/** The objects of a cluster that matter for volume snapshots. */
export interface ObservedCluster {
  /** The version that the API server reports: `v1.33.4-eks-99d6cc0`. */
  server: string;
  /** The CRDs of external-snapshotter, and those of sandboxes and their checkpoints. */
  crds: ObservedCrd[];
  controllers: ObservedController[];
  /** Existing objects with the names that a stack would use for its controller. */
  controllerObjects: ObservedObject[];
  /** Leases that a controller renewed recently. A controller whose Deployment is not visible has one too. */
  leases: Pick<HeldLease, "namespace" | "holder">[];
  /** Whether another sandbox controller than Ramet's renews its lease. */
  hasSandboxController: boolean;
  drivers: string[];
  classes: ObservedClass[];
  /** Webhooks that validate snapshots. */
  webhooks: Pick<ObservedWebhook, "name" | "isUpstreams">[];
  /**
   * Existing objects that violate the validation rules of v8, if the stack's CRDs have no rules yet: `kind/name` or
   * `kind/namespace/name`.
   */
  breakingRules: string[];
  nodes: ObservedNode[];
  /** Existing DaemonSets of EKS add-ons. */
  daemonSets: string[];
  /** The add-ons that a snapshot stack installed into this cluster, and the stack's resource. */
  installed: Installed | undefined;
  /** Resources (plural names) that could not be read because of missing permissions. */
  unread: string[];
}

export interface ObservedObject {
  kind: string;
  namespace?: string;
  name: string;
  manager: string;
  declaredBy: string | undefined;
}

export interface ObservedNode {
  labels: Record<string, string>;
}

export interface Installed {
  declaredBy: string;
  addons: string[];
}

export const emptyCluster: ObservedCluster = {
  server: "",
  crds: [],
  controllers: [],
  controllerObjects: [],
  leases: [],
  hasSandboxController: false,
  drivers: [],
  classes: [],
  webhooks: [],
  breakingRules: [],
  nodes: [],
  daemonSets: [],
  unread: [],
  installed: undefined,
};

/** The ConfigMap in which a stack records the add-ons that it installed, because add-ons cannot be annotated. */
export const installedMap = { namespace: "kube-system", name: "ramet-snapshot-stack", key: "addons" };

/** The DaemonSet that gives Pods on EKS the roles of their service accounts. */
export const podIdentityAgent = "eks-pod-identity-agent";

/** The Lease for leader election of snapshot controllers (external-snapshotter, cmd/snapshot-controller). */
export const controllerLease = "snapshot-controller-leader";

/** The names of a snapshot-controller's objects in upstream's manifests, charts and add-ons. */
export const controllerNames = {
  /** Deployment, service account, Pods and PodDisruptionBudget. */
  controller: "snapshot-controller",
  clusterRole: "snapshot-controller-runner",
  clusterRoleBinding: "snapshot-controller-role",
  /** The Role for the lease and its binding. */
  lease: "snapshot-controller-leaderelection",
} as const;

/** The objects that a stack creates for a controller, without CRDs and classes. */
export function controllerObjects(namespace: string): { ref: ResourceRef; namespace?: string; name: string }[] {
  const { controller, clusterRole, clusterRoleBinding, lease } = controllerNames;
  return [
    { ref: namespacedRef("apps/v1", "Deployment"), namespace, name: controller },
    { ref: namespacedRef("v1", "ServiceAccount"), namespace, name: controller },
    { ref: namespacedRef("policy/v1", "PodDisruptionBudget"), namespace, name: controller },
    { ref: namespacedRef(rbac, "Role"), namespace, name: lease },
    { ref: namespacedRef(rbac, "RoleBinding"), namespace, name: lease },
    { ref: clusterRef(rbac, "ClusterRole"), name: clusterRole },
    { ref: clusterRef(rbac, "ClusterRoleBinding"), name: clusterRoleBinding },
  ];
}

const rbac = "rbac.authorization.k8s.io/v1";

export function removal(objects: readonly ObservedObject[]): string {
  const namespace = objects.find((one) => one.namespace !== undefined)?.namespace;
  return [
    "kubectl delete",
    ...(namespace === undefined ? [] : ["--namespace", namespace]),
    ...objects.map(asText),
  ].join(" ");
}

export function asText({ kind, name }: ObservedObject): string {
  return `${kind.toLowerCase()}/${name}`;
}
