import { systemNamespace } from "../api/names/system-names.ts";
import type { Manifest } from "./manifest.ts";
import { ruleOf, type Right } from "./rights.ts";

export interface Rights {
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
