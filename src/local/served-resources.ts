import * as z from "zod";
import { unlessCode } from "../base/errors.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import { apiVersionOf, coreResources, type ResourceRef } from "../kube/resource-ref.ts";

const Groups = z.object({
  groups: z.array(
    z.object({
      name: z.string(),
      preferredVersion: z.object({ groupVersion: z.string() }),
      versions: z.array(z.object({ groupVersion: z.string() })),
    }),
  ),
});
const Resources = z.object({
  resources: z.array(
    z.object({ name: z.string(), kind: z.string(), namespaced: z.boolean(), verbs: z.array(z.string()) }),
  ),
});

export interface ServedResources {
  /** Each kind in one version. */
  served: ResourceRef[];
  /** Groups of which a version could not be read, such as one whose own API server is down. */
  unreadGroups: Set<string>;
}

/**
 * The resources whose objects can be deleted and followed. Each kind is in the preferred version of its group, or else in the first
 * that has it. Events are left out, because they have no owners.
 */
export async function servedResources(client: KubeClient, signal: AbortSignal): Promise<ServedResources> {
  const { groups } = Groups.parse(await client.getPath("/apis", signal));
  const versions = groups.flatMap((group) => [
    group.preferredVersion.groupVersion,
    ...group.versions.map(({ groupVersion }) => groupVersion),
  ]);
  const served = new Map<string, ResourceRef>();
  const unreadGroups = new Set<string>();
  for (const path of ["/api/v1", ...new Set(versions.map((groupVersion) => `/apis/${groupVersion}`))]) {
    try {
      for (const ref of await resourcesAt(path, client, signal)) {
        const key = kindKey(apiVersionOf(ref), ref.kind);
        if (!served.has(key)) served.set(key, ref);
      }
    } catch (error) {
      if (signal.aborted) throw error;
      const [, group = ""] = path.split("/").slice(2).reverse();
      unreadGroups.add(group);
    }
  }
  return { served: [...served.values()], unreadGroups };
}

async function resourcesAt(path: string, client: KubeClient, signal: AbortSignal): Promise<ResourceRef[]> {
  const { resources } = Resources.parse(await client.getPath(path, signal));
  const [version = "", group = ""] = path.split("/").slice(2).reverse();
  return resources
    .filter(({ verbs }) => ["delete", "list", "watch"].every((verb) => verbs.includes(verb)))
    .filter(({ kind }) => kind !== coreResources.events.kind)
    .map(({ name, kind, namespaced }) => ({ group, version, plural: name, kind, namespaced }));
}

/** Names a kind in all its versions, in which its objects are the same. */
export function kindKey(apiVersion: string, kind: string): string {
  const [, group = ""] = apiVersion.split("/").reverse();
  return `${kind}.${group}`;
}

const Crd = z.object({
  spec: z.object({ versions: z.array(z.object({ served: z.boolean() })) }),
  status: z.object({ conditions: z.array(z.object({ type: z.string(), status: z.string() })).nullish() }).optional(),
});

/** Whether the API server serves, or is about to serve, the kind of a CRD. One whose names are in use has no objects. */
export async function isServed(client: KubeClient, crd: string, signal: AbortSignal): Promise<boolean> {
  const path = `/apis/apiextensions.k8s.io/v1/customresourcedefinitions/${encodeURIComponent(crd)}`;
  const found = await client.getPath(path, signal).catch(unlessCode("NotFound"));
  if (found === undefined) return false;
  const { spec, status } = Crd.parse(found);
  const isEstablished = status?.conditions?.some((one) => one.type === "Established" && one.status === "True") === true;
  return isEstablished && spec.versions.some(({ served }) => served);
}
