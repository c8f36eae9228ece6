import { setTimeout as delay } from "node:timers/promises";
import type { KubeClient } from "../../src/kube/kube-client.ts";
import { isAllowed } from "../../src/kube/access-review.ts";

/** A rule of a Role. */
export interface RbacRule {
  apiGroups?: string[];
  resources?: string[];
  resourceNames?: string[];
  nonResourceURLs?: string[];
  verbs: string[];
}

/**
 * Waits until a user may do in a namespace what the last one of the rules allows, which must be for a resource. The API server knows a
 * right some moments after it was written, and servers remember its first decision.
 */
export async function untilAllowed(
  client: KubeClient,
  { user, namespace, rules }: { user: string; namespace: string; rules: readonly RbacRule[] },
): Promise<void> {
  const { apiGroups = [], resources = [], resourceNames, verbs = [] } = rules.at(-1) ?? {};
  const [resource = "", subresource] = resources.at(-1)?.split("/") ?? [];
  const name = resourceNames?.at(-1);
  const attributes = {
    namespace,
    group: apiGroups.at(-1) ?? "",
    resource,
    verb: verbs.at(-1) ?? "",
    ...(subresource !== undefined && { subresource }),
    ...(name !== undefined && { name }),
  };
  while (!(await isAllowed(client, { user }, attributes))) await delay(20);
}

/** The user name of a service account. */
export function userOf({ namespace, name }: { namespace: string; name: string }): string {
  return `system:serviceaccount:${namespace}:${name}`;
}
