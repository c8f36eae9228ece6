import { RametError } from "../../base/errors.ts";
import type { KubeObject } from "../../kube/object.ts";
import type { ResourceClient } from "../../kube/resource-client.ts";

/** Adds a finalizer, and in the same write whatever else `patch` says. @throws RametError `Conflict`: look again */
export async function addFinalizer<T extends KubeObject>(
  resource: ResourceClient<T>,
  object: T,
  finalizer: string,
  patch: { metadata?: object; spec?: object } = {},
): Promise<T> {
  const { uid, resourceVersion, finalizers = [] } = object.metadata;
  return resource.mergePatch(object.metadata, {
    ...patch,
    // A list is replaced whole, so the write is guarded against another's finalizer.
    metadata: { ...patch.metadata, uid, resourceVersion, finalizers: [...new Set([...finalizers, finalizer])] },
  });
}

/** Takes a finalizer away; an object that is gone is done. @throws RametError `Conflict`: look again */
export async function removeFinalizer<T extends KubeObject>(
  resource: ResourceClient<T>,
  object: T,
  finalizer: string,
): Promise<void> {
  const { uid, resourceVersion, finalizers = [] } = object.metadata;
  if (!finalizers.includes(finalizer)) return;
  const rest = finalizers.filter((other) => other !== finalizer);
  try {
    await resource.mergePatch(object.metadata, { metadata: { uid, resourceVersion, finalizers: rest } });
  } catch (error) {
    if (RametError.from(error).code !== "NotFound") throw error;
  }
}
