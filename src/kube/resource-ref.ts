import { group, type KindNames, version } from "../api/schema/kind.ts";
import type { ObjectName } from "./object.ts";

/** One resource of the Kubernetes API. */
export interface ResourceRef {
  /** Empty for the core group. */
  group: string;
  version: string;
  plural: string;
  kind: string;
  namespaced: boolean;
}

/** A resource whose objects are in namespaces. @param apiVersion such as `v1` or `apps/v1` */
export function namespacedRef(apiVersion: string, kind: string): ResourceRef {
  const [version = "", group = ""] = apiVersion.split("/").reverse();
  return { group, version, plural: pluralOf(kind), kind, namespaced: true };
}

/** A resource whose objects are in no namespace. */
export function clusterRef(apiVersion: string, kind: string): ResourceRef {
  return { ...namespacedRef(apiVersion, kind), namespaced: false };
}

/** As `UnsafeGuessKindToResource` of apimachinery derives it. */
function pluralOf(kind: string): string {
  const singular = kind.toLowerCase();
  if (singular.endsWith("s")) return `${singular}es`;
  return singular.endsWith("y") ? `${singular.slice(0, -1)}ies` : `${singular}s`;
}

export const coreResources = {
  pods: namespacedRef("v1", "Pod"),
  nodes: clusterRef("v1", "Node"),
  namespaces: clusterRef("v1", "Namespace"),
  secrets: namespacedRef("v1", "Secret"),
  configMaps: namespacedRef("v1", "ConfigMap"),
  persistentVolumeClaims: namespacedRef("v1", "PersistentVolumeClaim"),
  serviceAccounts: namespacedRef("v1", "ServiceAccount"),
  leases: namespacedRef("coordination.k8s.io/v1", "Lease"),
  roleBindings: namespacedRef("rbac.authorization.k8s.io/v1", "RoleBinding"),
  deployments: namespacedRef("apps/v1", "Deployment"),
  budgets: namespacedRef("policy/v1", "PodDisruptionBudget"),
  events: namespacedRef("events.k8s.io/v1", "Event"),
  tokenReviews: clusterRef("authentication.k8s.io/v1", "TokenReview"),
  selfSubjectAccessReviews: clusterRef("authorization.k8s.io/v1", "SelfSubjectAccessReview"),
  subjectAccessReviews: clusterRef("authorization.k8s.io/v1", "SubjectAccessReview"),
  crds: clusterRef("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
};

/** The admission policies of the API server, which are objects of the cluster. */
export const admissionResources = {
  policies: clusterRef("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy"),
  bindings: clusterRef("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding"),
};

/** The API resource of a kind that Ramet defines or shares with OpenKruise Agents. */
export function refOf({ kind, plural, group: own = group }: KindNames): ResourceRef {
  return { group: own, version, plural, kind, namespaced: true };
}

/** The `apiVersion` of the objects of a resource. */
export function apiVersionOf(resource: ResourceRef): string {
  return resource.group === "" ? resource.version : `${resource.group}/${resource.version}`;
}

export interface ResourcePath extends Partial<ObjectName> {
  subresource?: string | undefined;
}

/** The URL path of a collection, an object or a subresource. */
export function pathOf(resource: ResourceRef, at: ResourcePath = {}): string {
  const parts = resource.group === "" ? ["api"] : ["apis", resource.group];
  parts.push(resource.version);
  if (resource.namespaced && at.namespace !== undefined) parts.push("namespaces", at.namespace);
  parts.push(resource.plural);
  if (at.name !== undefined) parts.push(at.name);
  if (at.subresource !== undefined) parts.push(...at.subresource.split("/"));
  return `/${parts.map((part) => encodeURIComponent(part)).join("/")}`;
}
