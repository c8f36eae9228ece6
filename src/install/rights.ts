import { systemNamespace } from "../api/names/system-names.ts";
import { defined } from "../base/defined.ts";
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
   * The scope of the right if only some namespaces are served. `served`: objects in these namespaces. `cluster`: all of it, because
   * it is for objects outside of namespaces, or of the cluster's own. `namespaces`: other rights instead.
   */
  scope: "served" | "cluster" | "namespaces";
}

/**
 * Returns the rights of a table with reasons: `{ "pods sandboxes.agents.kruise.io/status: get list": "find out …" }`. Resources are
 * named as kubectl names them.
 */
export function rights(scope: Right["scope"], table: Readonly<Record<string, string>>): Right[] {
  return Object.entries(table).map(([allowed, why]) => {
    const [named = "", verbs = ""] = allowed.split(": ");
    const parsed = named.split(" ").map((resource) => /^(\w+)\.?([^/]*)(.*)$/.exec(resource) ?? []);
    return {
      why,
      apiGroups: [...new Set(parsed.map(([, , group = ""]) => group))],
      resources: parsed.map(([, plural = "", , subresource = ""]) => plural + subresource),
      verbs: verbs.split(" "),
      scope,
    };
  });
}

/** Returns rights on the objects of these names. They are granted where only some namespaces are served, too. */
export function rightsOnNames(resourceNames: readonly string[], table: Readonly<Record<string, string>>): Right[] {
  return rights("cluster", table).map((right) => ({ ...right, resourceNames: [...resourceNames] }));
}

/** Returns the RBAC rule, which has fields neither for the reason nor for the scope. */
export function ruleOf({ why: _, scope: __, ...rule }: Right) {
  return rule;
}

/** The rights of a server. */
export interface Rights {
  everywhere: readonly Right[];
  /** In `ramet-system`. */
  inSystem: readonly Right[];
  /** In each of the served namespaces. @default none: `everywhere` includes them */
  inServed?: { namespaces: readonly string[]; rights: readonly Right[] };
}

/** Returns the same rights for a server of some namespaces only. */
export function narrowed(rights: readonly Right[], namespaces: readonly string[]) {
  return {
    everywhere: rights.filter(({ scope }) => scope === "cluster"),
    inServed: { namespaces, rights: rights.filter(({ scope }) => scope === "served") },
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
  const subject = { kind: "ServiceAccount", name, namespace };
  return [
    ...boundRole(defined({ name, annotations }), everywhere, subject),
    ...boundRole({ name, namespace: systemNamespace }, inSystem, subject),
    ...(inServed?.namespaces ?? []).flatMap((served) =>
      boundRole({ name, namespace: served }, inServed?.rights ?? [], subject),
    ),
  ];
}

/**
 * Returns a role and its binding: a Role, or a ClusterRole if the metadata has no namespace.
 * @param binding metadata of the binding. @default those of the role, without the annotations of a ClusterRole
 */
export function boundRole(
  metadata: Manifest["metadata"],
  rights: readonly Right[],
  subject: object,
  binding: Manifest["metadata"] = metadata.namespace === undefined ? { name: metadata.name } : metadata,
): Manifest[] {
  const apiGroup = "rbac.authorization.k8s.io";
  const kind = metadata.namespace === undefined ? "ClusterRole" : "Role";
  const roleRef = { apiGroup, kind, name: metadata.name };
  return [
    { apiVersion: `${apiGroup}/v1`, kind, metadata, rules: rights.map(ruleOf) },
    { apiVersion: `${apiGroup}/v1`, kind: `${kind}Binding`, metadata: binding, roleRef, subjects: [subject] },
  ];
}

/** A ConfigMap in `ramet-system`, and the permission of all authenticated users to read it. */
export function publicConfigMap(name: string, data: Record<string, unknown>): Manifest[] {
  const metadata = { name, namespace: systemNamespace };
  const everybody = { apiGroup: "rbac.authorization.k8s.io", kind: "Group", name: "system:authenticated" };
  return [
    { apiVersion: "v1", kind: "ConfigMap", metadata, data },
    ...boundRole(metadata, rightsOnNames([name], { "configmaps: get": "read it" }), everybody),
  ];
}
