import type { ResourceRef } from "../../../src/kube/resource-ref.ts";

/** The names of what a snapshot-controller is installed with: upstream's, which its charts and add-ons have as well. */
export const controllerNames = {
  /** Of the Deployment, its account, its Pods and their disruption budget. */
  controller: "snapshot-controller",
  clusterRole: "snapshot-controller-runner",
  clusterRoleBinding: "snapshot-controller-role",
  /** Of the Role for the lease, and its binding. */
  lease: "snapshot-controller-leaderelection",
} as const;

/** What a stack would make for a controller in a namespace, beside CRDs and classes. */
export function controllerObjects(namespace: string): { ref: ResourceRef; namespace?: string; name: string }[] {
  const { controller, clusterRole, clusterRoleBinding, lease } = controllerNames;
  return [
    { ref: ref("apps", "Deployment"), namespace, name: controller },
    { ref: ref("", "ServiceAccount"), namespace, name: controller },
    { ref: ref("policy", "PodDisruptionBudget"), namespace, name: controller },
    { ref: ref(rbac, "Role"), namespace, name: lease },
    { ref: ref(rbac, "RoleBinding"), namespace, name: lease },
    { ref: { ...ref(rbac, "ClusterRole"), namespaced: false }, name: clusterRole },
    { ref: { ...ref(rbac, "ClusterRoleBinding"), namespaced: false }, name: clusterRoleBinding },
  ];
}

const rbac = "rbac.authorization.k8s.io";

function ref(group: string, kind: string): ResourceRef {
  return { group, version: "v1", plural: `${kind.toLowerCase()}s`, kind, namespaced: true };
}
