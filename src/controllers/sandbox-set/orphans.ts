import { RametError } from "../../base/errors.ts";
import { controllerOf, nameOfKey, type KubeObject } from "../../kube/object.ts";
import type { ResourceClient } from "../../kube/resource-client.ts";
import type { SetDependencies } from "./dependencies.ts";
import { memberOf } from "./member.ts";

/**
 * Deletes what a set left that is gone: not every cluster has a garbage collector. A claimed sandbox has no set as its
 * owner any more; one that is being claimed just now is spared, as the claim takes the owner away.
 */
export async function deleteOrphans(key: string, dependencies: SetDependencies): Promise<void> {
  const { cache, informers, newSandboxes, metrics } = dependencies;
  const present = cache.set(key)?.metadata.uid;
  const isOrphan = (object: KubeObject): boolean => controllerOf(object)?.uid !== present;
  const sandboxes = cache.sandboxesOfSet(key).filter(isOrphan).filter(isUnclaimed);
  const templates = cache.templatesOfSet(key).filter(isOrphan);
  if (sandboxes.length + templates.length === 0) return;
  // To find nothing here deletes sandboxes, so the cache alone is no witness.
  const found = (await informers.sets.resource.find(nameOfKey(key)))?.metadata.uid;
  const ofGoneSet = (object: KubeObject): boolean => controllerOf(object)?.uid !== found;
  await Promise.all([
    ...templates.filter(ofGoneSet).map((template) => deleteAsSeen(informers.templates.resource, template)),
    ...sandboxes.filter(ofGoneSet).map(async (sandbox) => {
      await deleteAsSeen(informers.sandboxes.resource, sandbox);
      newSandboxes.deleting(sandbox.metadata.uid);
      metrics?.deleted(nameOfKey(key), "setGone");
    }),
  ]);

  function isUnclaimed(sandbox: Parameters<typeof memberOf>[0]): boolean {
    const { state } = memberOf(sandbox, newSandboxes.isLeaving(sandbox.metadata.uid));
    return state !== "used" && state !== "leaving";
  }
}

async function deleteAsSeen<T extends KubeObject>(resource: ResourceClient<T>, { metadata }: T): Promise<void> {
  if (metadata.deletionTimestamp !== undefined) return;
  const { uid, resourceVersion } = metadata;
  try {
    await resource.delete(metadata, { uid, resourceVersion });
  } catch (error) {
    // It has changed, and the change brings the key again.
    if (RametError.from(error).code !== "Conflict") throw error;
  }
}
