import { specialAddresses } from "../base/special-addresses.ts";
import { systemNamespace } from "../api/names/system-names.ts";

/** A Kubernetes object to apply. */
export interface Manifest {
  apiVersion: string;
  kind: string;
  metadata: { name: string; namespace?: string; annotations?: Record<string, string>; labels?: Record<string, string> };
  [field: string]: unknown;
}

/** The default for the cluster's ranges of Pods, Services and nodes. */
export const privateRanges: readonly string[] = specialAddresses.private;

/** A ConfigMap in `ramet-system`, and the permission of all authenticated users to read it. */
export function publicConfigMap(name: string, data: Record<string, unknown>): Manifest[] {
  const metadata = { name, namespace: systemNamespace };
  const apiVersion = "rbac.authorization.k8s.io/v1";
  const apiGroup = "rbac.authorization.k8s.io";
  const rule = { apiGroups: [""], resources: ["configmaps"], resourceNames: [name], verbs: ["get"] };
  return [
    { apiVersion: "v1", kind: "ConfigMap", metadata, data },
    { apiVersion, kind: "Role", metadata, rules: [rule] },
    {
      apiVersion,
      kind: "RoleBinding",
      metadata,
      roleRef: { apiGroup, kind: "Role", name },
      subjects: [{ apiGroup, kind: "Group", name: "system:authenticated" }],
    },
  ];
}
