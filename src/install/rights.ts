import { gatewayKeySecret, systemNamespace } from "../api/names/system-names.ts";
import type { Manifest } from "./manifest.ts";

/** One right of a server, and why it needs it. */
export interface Right {
  why: string;
  apiGroups: string[];
  resources: string[];
  /** @default all of them */
  resourceNames?: string[];
  verbs: string[];
}

/** As it stands in a Role, which has no place for why. */
export function ruleOf({ why: _, ...rule }: Right) {
  return rule;
}

const kruise = "agents.kruise.io";
const follow = ["get", "list", "watch"];

/** In every namespace. */
export const clusterRights: readonly Right[] = [
  {
    why: "sandboxes are made for sets, claims and builds, and deleted when their time is over",
    apiGroups: [kruise],
    resources: ["sandboxes"],
    verbs: [...follow, "create", "patch", "delete"],
  },
  {
    why: "checkpoints are made for pauses, steps and versions, and removed when nothing refers to them",
    apiGroups: [kruise],
    resources: ["checkpoints"],
    verbs: [...follow, "create", "patch", "delete"],
  },
  {
    why: "the template of each checkpoint and of each revision of a set is kept, and removed with it",
    apiGroups: [kruise],
    resources: ["sandboxtemplates"],
    verbs: [...follow, "create", "patch", "delete"],
  },
  {
    why: "a claim is deleted when its ttlAfterCompleted is over",
    apiGroups: [kruise],
    resources: ["sandboxclaims"],
    verbs: [...follow, "patch", "delete"],
  },
  { why: "sets are followed", apiGroups: [kruise], resources: ["sandboxsets"], verbs: [...follow, "patch"] },
  {
    why: "named snapshots are followed, and bear a finalizer until what they have made is gone",
    apiGroups: ["ramet.dev"],
    resources: ["namedsnapshots"],
    verbs: [...follow, "patch"],
  },
  {
    why: "how each object is, is told in its status",
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
    why: "a sandbox runs in a Pod",
    apiGroups: [""],
    resources: ["pods"],
    verbs: [...follow, "create", "patch", "delete"],
  },
  {
    why: "volumeClaimTemplates of a sandbox become claims",
    apiGroups: [""],
    resources: ["persistentvolumeclaims"],
    verbs: ["get", "create"],
  },
  {
    why: "what the steps of a recipe print is kept in ConfigMaps, and steps copy from ConfigMaps",
    apiGroups: [""],
    resources: ["configmaps"],
    verbs: ["get", "create", "patch", "delete"],
  },
  { why: "steps copy from Secrets that they name", apiGroups: [""], resources: ["secrets"], verbs: ["get"] },
  {
    why: "the store is bound to the cluster by the UID of kube-system, and ramet-system is made where it is missing",
    apiGroups: [""],
    resources: ["namespaces"],
    verbs: ["get", "create"],
  },
  {
    why: "transitions are told as events",
    apiGroups: ["events.k8s.io"],
    resources: ["events"],
    verbs: ["create", "patch"],
  },
];

/** In `ramet-system`. */
export const systemRights: readonly Right[] = [
  {
    why: "one of several controllers works: the one that holds the lease",
    apiGroups: ["coordination.k8s.io"],
    resources: ["leases"],
    verbs: ["get", "create", "update"],
  },
  { why: "the key of the cells is made once", apiGroups: [""], resources: ["secrets"], verbs: ["create"] },
];

/** Of gateways, in every namespace. */
export const gatewayClusterRights: readonly Right[] = [
  {
    why: "where a sandbox is, and whether it is ready, is in its status",
    apiGroups: ["agents.kruise.io"],
    resources: ["sandboxes"],
    verbs: ["get", "list", "watch"],
  },
  {
    why: "who somebody is, the API server knows by their token",
    apiGroups: ["authentication.k8s.io"],
    resources: ["tokenreviews"],
    verbs: ["create"],
  },
  {
    why: "whether they may reach a sandbox, the API server knows too",
    apiGroups: ["authorization.k8s.io"],
    resources: ["subjectaccessreviews"],
    verbs: ["create"],
  },
];

/** Of gateways, in `ramet-system`. */
export const gatewaySystemRights: readonly Right[] = [
  {
    why: "cells open ports for whoever has this key, which opens nothing else",
    apiGroups: [""],
    resources: ["secrets"],
    resourceNames: [gatewayKeySecret],
    verbs: ["get"],
  },
];

interface Rights {
  everywhere: readonly Right[];
  /** In `ramet-system`. */
  inSystem: readonly Right[];
}

/**
 * Gives a service account its rights, by roles of the same name.
 * @param annotations of the ClusterRole
 */
export function roles(
  { name, namespace }: { name: string; namespace: string },
  { everywhere, inSystem }: Rights,
  annotations?: Record<string, string>,
): Manifest[] {
  const apiVersion = "rbac.authorization.k8s.io/v1";
  const apiGroup = "rbac.authorization.k8s.io";
  const subjects = [{ kind: "ServiceAccount", name, namespace }];
  const ofCluster = { name, ...(annotations !== undefined && { annotations }) };
  const ofSystem = { name, namespace: systemNamespace };
  const bound = (kind: string) => ({ roleRef: { apiGroup, kind, name }, subjects });
  return [
    { apiVersion, kind: "ClusterRole", metadata: ofCluster, rules: everywhere.map(ruleOf) },
    { apiVersion, kind: "ClusterRoleBinding", metadata: { name }, ...bound("ClusterRole") },
    { apiVersion, kind: "Role", metadata: ofSystem, rules: inSystem.map(ruleOf) },
    { apiVersion, kind: "RoleBinding", metadata: ofSystem, ...bound("Role") },
  ];
}
