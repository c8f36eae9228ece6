import { expect } from "vitest";
import type { KubeClient } from "../../src/kube/kube-client.ts";
import type { KubeObject } from "../../src/kube/object.ts";
import { coreResources, type ResourceRef } from "../../src/kube/resource-ref.ts";

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
  const rules = [{ apiGroups: ["agents.kruise.io"], resources: ["checkpoints"], verbs }];
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
  await expect.poll(() => can(client, { user, namespace, verb: verbs.at(-1) ?? "" }), { timeout: 20_000 }).toBe(true);
}

async function can(client: KubeClient, { user, ...asked }: { user: string; namespace: string; verb: string }) {
  const reviews = client.resource(coreResources.subjectAccessReviews, (value) => value as KubeObject);
  const resourceAttributes = { ...asked, group: "agents.kruise.io", resource: "checkpoints" };
  const review = { apiVersion: "authorization.k8s.io/v1", kind: "SubjectAccessReview", metadata: {} };
  const answer = await reviews.create({ ...review, spec: { user, resourceAttributes } });
  return (answer as { status?: { allowed?: boolean } }).status?.allowed === true;
}
