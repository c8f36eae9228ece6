import type { KubeClient } from "../../src/kube/kube-client.ts";
import { coreResources, type ResourceRef } from "../../src/kube/resource-ref.ts";
import { untilAllowed } from "./until-allowed.ts";

const rbac = { group: "rbac.authorization.k8s.io", version: "v1", namespaced: true } as const;
const roles: ResourceRef = { ...rbac, plural: "roles", kind: "Role" };

/** Gives a user these verbs on the checkpoints of a namespace, and waits until the API server knows the last one. */
export async function grantImports(
  client: KubeClient,
  { user, namespace, verbs }: { user: string; namespace: string; verbs: readonly string[] },
): Promise<void> {
  const apiVersion = "rbac.authorization.k8s.io/v1";
  const metadata = { name: `imports-${user}`, namespace };
  const applied = { fieldManager: "test", force: true };
  const rules = [{ apiGroups: ["agents.kruise.io"], resources: ["checkpoints"], verbs: [...verbs] }];
  await client.resource(roles).apply({ apiVersion, kind: "Role", metadata, rules }, applied);
  await client.resource(coreResources.roleBindings).apply(
    {
      apiVersion,
      kind: "RoleBinding",
      metadata,
      roleRef: { apiGroup: rbac.group, kind: "Role", name: metadata.name },
      subjects: [{ apiGroup: rbac.group, kind: "User", name: user }],
    },
    applied,
  );
  await untilAllowed(client, { user, namespace, rules });
}
