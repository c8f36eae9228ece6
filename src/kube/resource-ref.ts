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

export const coreResources = {
  pods: { group: "", version: "v1", plural: "pods", kind: "Pod", namespaced: true },
  nodes: { group: "", version: "v1", plural: "nodes", kind: "Node", namespaced: false },
  namespaces: { group: "", version: "v1", plural: "namespaces", kind: "Namespace", namespaced: false },
  secrets: { group: "", version: "v1", plural: "secrets", kind: "Secret", namespaced: true },
  configMaps: { group: "", version: "v1", plural: "configmaps", kind: "ConfigMap", namespaced: true },
  persistentVolumeClaims: {
    group: "",
    version: "v1",
    plural: "persistentvolumeclaims",
    kind: "PersistentVolumeClaim",
    namespaced: true,
  },
  serviceAccounts: { group: "", version: "v1", plural: "serviceaccounts", kind: "ServiceAccount", namespaced: true },
  leases: { group: "coordination.k8s.io", version: "v1", plural: "leases", kind: "Lease", namespaced: true },
  roleBindings: {
    group: "rbac.authorization.k8s.io",
    version: "v1",
    plural: "rolebindings",
    kind: "RoleBinding",
    namespaced: true,
  },
  deployments: { group: "apps", version: "v1", plural: "deployments", kind: "Deployment", namespaced: true },
  events: { group: "events.k8s.io", version: "v1", plural: "events", kind: "Event", namespaced: true },
  tokenReviews: {
    group: "authentication.k8s.io",
    version: "v1",
    plural: "tokenreviews",
    kind: "TokenReview",
    namespaced: false,
  },
  selfSubjectAccessReviews: {
    group: "authorization.k8s.io",
    version: "v1",
    plural: "selfsubjectaccessreviews",
    kind: "SelfSubjectAccessReview",
    namespaced: false,
  },
  subjectAccessReviews: {
    group: "authorization.k8s.io",
    version: "v1",
    plural: "subjectaccessreviews",
    kind: "SubjectAccessReview",
    namespaced: false,
  },
  crds: {
    group: "apiextensions.k8s.io",
    version: "v1",
    plural: "customresourcedefinitions",
    kind: "CustomResourceDefinition",
    namespaced: false,
  },
} as const satisfies Record<string, ResourceRef>;

/** The admission policies of the API server, which are objects of the cluster. */
export const admissionResources = {
  policies: {
    group: "admissionregistration.k8s.io",
    version: "v1",
    plural: "validatingadmissionpolicies",
    kind: "ValidatingAdmissionPolicy",
    namespaced: false,
  },
  bindings: {
    group: "admissionregistration.k8s.io",
    version: "v1",
    plural: "validatingadmissionpolicybindings",
    kind: "ValidatingAdmissionPolicyBinding",
    namespaced: false,
  },
} as const satisfies Record<string, ResourceRef>;

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
  if (at.subresource !== undefined) parts.push(at.subresource);
  return `/${parts.map((part) => encodeURIComponent(part)).join("/")}`;
}
