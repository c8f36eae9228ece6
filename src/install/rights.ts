import {
  gatewayKeySecret,
  guestKeySecret,
  systemNamespace,
  keyPowers,
  keySecrets,
  nextSecretOf,
} from "../api/names/system-names.ts";
import { renderCrds } from "../api/kinds/crd.ts";
import { competingControllers } from "../api/names/other-controllers.ts";
import type { Manifest } from "./manifest.ts";

/** A permission of a server, with the reason why the server needs it. */
export interface Right {
  why: string;
  apiGroups?: string[];
  resources?: string[];
  /** @default all names */
  resourceNames?: string[];
  /** Paths that are not resources; without `apiGroups` and `resources`. */
  nonResourceURLs?: string[];
  verbs: string[];
  /**
   * What the right is for if only some namespaces are served. `cluster`: all of it, because it is for objects outside of
   * namespaces, or of the cluster's own. `namespaces`: {@link namespaceRights} instead. @default objects in the served namespaces
   */
  scope?: "cluster" | "namespaces";
}

/** Returns the RBAC rule, which has fields neither for the reason nor for the scope. */
export function ruleOf({ why: _, scope: __, ...rule }: Right) {
  return rule;
}

const kruise = "agents.kruise.io";
const follow = ["get", "list", "watch"];

/** Permissions of the controllers in all namespaces. */
export const clusterRights: readonly Right[] = [
  {
    why: "create sandboxes for sets, claims and builds, and delete expired sandboxes",
    apiGroups: [kruise],
    resources: ["sandboxes"],
    verbs: [...follow, "create", "patch", "delete"],
  },
  {
    why: "create checkpoints for pauses, steps and versions, and delete unused checkpoints",
    apiGroups: [kruise],
    resources: ["checkpoints"],
    verbs: [...follow, "create", "patch", "delete"],
  },
  {
    why: "keep the template of each checkpoint and of each revision of a set, and delete it with them",
    apiGroups: [kruise],
    resources: ["sandboxtemplates"],
    verbs: [...follow, "create", "patch", "delete"],
  },
  {
    why: "delete claims after their ttlAfterCompleted",
    apiGroups: [kruise],
    resources: ["sandboxclaims"],
    verbs: [...follow, "patch", "delete"],
  },
  { why: "reconcile sets", apiGroups: [kruise], resources: ["sandboxsets"], verbs: [...follow, "patch"] },
  {
    why: "reconcile named snapshots, whose finalizer remains until their versions are deleted",
    apiGroups: ["ramet.dev"],
    resources: ["namedsnapshots"],
    verbs: [...follow, "patch"],
  },
  {
    why: "write the status of each object",
    apiGroups: [kruise, "ramet.dev"],
    resources: [
      "sandboxes/status",
      "checkpoints/status",
      "sandboxclaims/status",
      "sandboxsets/status",
      "namedsnapshots/status",
    ],
    verbs: ["patch"],
  },
  {
    why: "run each sandbox in a Pod",
    apiGroups: [""],
    resources: ["pods"],
    verbs: [...follow, "create", "delete"],
  },
  {
    why: "create Pods that run cells; the admission policies refuse such Pods from everyone without this right",
    apiGroups: ["ramet.dev"],
    resources: ["cells"],
    verbs: ["create"],
  },
  {
    why: "create PersistentVolumeClaims from the volumeClaimTemplates of a sandbox, share them with its clones, and delete them with the last of these",
    apiGroups: [""],
    resources: ["persistentvolumeclaims"],
    verbs: ["get", "create", "patch", "delete"],
  },
  {
    why: "keep the output of recipe steps in ConfigMaps, and copy files from ConfigMaps",
    apiGroups: [""],
    resources: ["configmaps"],
    verbs: ["get", "create", "patch", "delete"],
  },
  {
    why: "copy files from the Secrets that a recipe names, and read images with the Secrets that a template names",
    apiGroups: [""],
    resources: ["secrets"],
    verbs: ["get"],
  },
  {
    why: "read which Secrets a service account names for image pulls",
    apiGroups: [""],
    resources: ["serviceaccounts"],
    verbs: ["get"],
  },
  {
    why: "bind the store to the cluster by the UID of kube-system, create ramet-system if it is missing, read which fields templates may use, and label namespaces with sandboxes",
    apiGroups: [""],
    resources: ["namespaces"],
    verbs: ["get", "create", "patch"],
    scope: "namespaces",
  },
  {
    why: "follow the egress rules that administrators set on namespaces",
    apiGroups: [""],
    resources: ["namespaces"],
    verbs: ["list", "watch"],
    scope: "namespaces",
  },
  {
    why: "find out whether all nodes support user namespaces, with --cell-user-namespaces auto",
    apiGroups: [""],
    resources: ["nodes"],
    verbs: ["list", "watch"],
    scope: "cluster",
  },
  {
    why: "record events",
    apiGroups: ["events.k8s.io"],
    resources: ["events"],
    verbs: ["create", "patch"],
  },
  ...otherControllerRights("find other controllers of the same kinds, beside which the controllers do not work"),
];

/**
 * The names are fixed, but not the namespaces: those depend on the installation of the other controller. RBAC allows a list of one
 * name in all namespaces.
 */
export function otherControllerRights(why: string): Right[] {
  return [
    {
      why: `${why}: their leases`,
      apiGroups: ["coordination.k8s.io"],
      resources: ["leases"],
      resourceNames: competingControllers.flatMap(({ leases }) => [...leases]),
      verbs: ["list"],
      scope: "cluster",
    },
    {
      why: `${why}: their Deployments`,
      apiGroups: ["apps"],
      resources: ["deployments"],
      resourceNames: competingControllers.flatMap(({ deployments }) => deployments.map(({ name }) => name)),
      verbs: ["list"],
      scope: "cluster",
    },
    {
      why: `${why}: the origin of their CRDs`,
      apiGroups: ["apiextensions.k8s.io"],
      resources: ["customresourcedefinitions"],
      resourceNames: renderCrds().flatMap(({ metadata, spec }) => (spec.group === kruise ? [metadata.name] : [])),
      verbs: ["get"],
      scope: "cluster",
    },
  ];
}

/** Permissions of the controllers in `ramet-system`. */
export const systemRights: readonly Right[] = [
  {
    why: "elect a leader among the controllers by a lease",
    apiGroups: ["coordination.k8s.io"],
    resources: ["leases"],
    verbs: ["get", "create", "update"],
  },
  {
    why: "create the keys of the cells, the guests and the gateways",
    apiGroups: [""],
    resources: ["secrets"],
    verbs: ["create"],
  },
  {
    why: "replace the keys of the cells and the gateways when they are rotated",
    apiGroups: [""],
    resources: ["secrets"],
    resourceNames: keyPowers.flatMap((power) => [keySecrets[power], nextSecretOf(power)]),
    verbs: ["delete"],
  },
];

/** Permissions of the controllers on Namespaces if only some are served. A list or watch of one name can be allowed by RBAC. */
function namespaceRights(served: readonly string[]): Right[] {
  return [
    {
      why: "bind the store to the cluster by the UID of kube-system, and look for ramet-system",
      apiGroups: [""],
      resources: ["namespaces"],
      resourceNames: ["kube-system", systemNamespace],
      verbs: ["get"],
    },
    {
      why: "follow the rules that administrators set on the served namespaces, and label those with sandboxes",
      apiGroups: [""],
      resources: ["namespaces"],
      resourceNames: [...served],
      verbs: [...follow, "patch"],
    },
  ];
}

/** What the controllers need in `ramet-system` besides `systemRights` if they have no rights in all namespaces. */
const ownNamespaceRights: readonly Right[] = [
  {
    why: "read the keys of the cells, the guests, the gateways and the checkpoints",
    apiGroups: [""],
    resources: ["secrets"],
    verbs: ["get"],
  },
  {
    why: "report the progress of the rotation of keys",
    apiGroups: [""],
    resources: ["configmaps"],
    verbs: ["get", "create", "patch"],
  },
];

/** Permissions of the gateways in all namespaces. */
export const gatewayClusterRights: readonly Right[] = [
  {
    why: "read the address and the readiness of sandboxes",
    apiGroups: ["agents.kruise.io"],
    resources: ["sandboxes"],
    verbs: follow,
  },
  {
    why: "verify the signature of a client's token before the API server is asked",
    nonResourceURLs: ["/openid/v1/jwks"],
    verbs: ["get"],
    scope: "cluster",
  },
  {
    why: "authenticate clients by their token",
    apiGroups: ["authentication.k8s.io"],
    resources: ["tokenreviews"],
    verbs: ["create"],
    scope: "cluster",
  },
  {
    why: "check whether a client may connect to a sandbox or enter it",
    apiGroups: ["authorization.k8s.io"],
    resources: ["subjectaccessreviews"],
    verbs: ["create"],
    scope: "cluster",
  },
];

/** Permissions of the gateways in `ramet-system`. */
export const gatewaySystemRights: readonly Right[] = [
  {
    why: "read the key with which cells proxy to sandbox ports, and which allows nothing else",
    apiGroups: [""],
    resources: ["secrets"],
    resourceNames: [gatewayKeySecret],
    verbs: ["get"],
  },
];

/** The further permission in `ramet-system` of gateways through which clients enter sandboxes. */
export const gatewayExecRight: Right = {
  why: "send the access token of a sandbox's guest for clients that may enter the sandbox",
  apiGroups: [""],
  resources: ["secrets"],
  resourceNames: [guestKeySecret],
  verbs: ["get"],
};

/** The rights of a server. */
export interface Rights {
  everywhere: readonly Right[];
  /** In `ramet-system`. */
  inSystem: readonly Right[];
  /** In each of the served namespaces. @default none: `everywhere` includes them */
  inServed?: { namespaces: readonly string[]; rights: readonly Right[] };
}

/** @param served the namespaces whose objects the controllers reconcile. @default all */
export function controllerRights(served?: readonly string[]): Rights {
  if (served === undefined) return { everywhere: clusterRights, inSystem: systemRights };
  const { everywhere, inServed } = narrowed(clusterRights, served);
  return {
    everywhere: [...namespaceRights(served), ...everywhere],
    inSystem: [...systemRights, ...ownNamespaceRights],
    inServed,
  };
}

/** @param exec whether clients enter sandboxes through the gateways */
export function gatewayRights(exec: boolean, served?: readonly string[]): Rights {
  const inSystem = exec ? [...gatewaySystemRights, gatewayExecRight] : gatewaySystemRights;
  if (served === undefined) return { everywhere: gatewayClusterRights, inSystem };
  return { ...narrowed(gatewayClusterRights, served), inSystem };
}

function narrowed(rights: readonly Right[], namespaces: readonly string[]) {
  return {
    everywhere: rights.filter(({ scope }) => scope === "cluster"),
    inServed: { namespaces, rights: rights.filter(({ scope }) => scope === undefined) },
  };
}

/**
 * Returns the roles and role bindings of a service account. All have its name, so that other rights replace them.
 * @param annotations the annotations of the ClusterRole
 */
export function roles(
  { name, namespace }: { name: string; namespace: string },
  { everywhere, inSystem, inServed }: Rights,
  annotations?: Record<string, string>,
): Manifest[] {
  const apiVersion = "rbac.authorization.k8s.io/v1";
  const apiGroup = "rbac.authorization.k8s.io";
  const subjects = [{ kind: "ServiceAccount", name, namespace }];
  const clusterMetadata = { name, ...(annotations !== undefined && { annotations }) };
  const bound = (kind: string) => ({ roleRef: { apiGroup, kind, name }, subjects });
  const inNamespace = (metadata: { name: string; namespace: string }, rights: readonly Right[]): Manifest[] => [
    { apiVersion, kind: "Role", metadata, rules: rights.map(ruleOf) },
    { apiVersion, kind: "RoleBinding", metadata, ...bound("Role") },
  ];
  return [
    { apiVersion, kind: "ClusterRole", metadata: clusterMetadata, rules: everywhere.map(ruleOf) },
    { apiVersion, kind: "ClusterRoleBinding", metadata: { name }, ...bound("ClusterRole") },
    ...inNamespace({ name, namespace: systemNamespace }, inSystem),
    ...(inServed?.namespaces ?? []).flatMap((served) =>
      inNamespace({ name, namespace: served }, inServed?.rights ?? []),
    ),
  ];
}
