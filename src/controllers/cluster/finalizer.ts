import { RametError } from "../../base/errors.ts";
import type { KubeObject } from "../../kube/object.ts";
import type { ResourceClient } from "../../kube/resource-client.ts";

/** Adds a finalizer and applies `patch` in the same write. @throws RametError `Conflict`: requeue the object */
export async function addFinalizer<T extends KubeObject>(
  resource: ResourceClient<T>,
  object: T,
  finalizer: string,
  patch: { metadata?: object; spec?: object } = {},
): Promise<T> {
  const { uid, resourceVersion, finalizers = [] } = object.metadata;
  return resource.mergePatch(object.metadata, {
    ...patch,
    // A merge patch replaces the whole list. The resourceVersion keeps it from removing the finalizer of another controller.
    metadata: { ...patch.metadata, uid, resourceVersion, finalizers: [...new Set([...finalizers, finalizer])] },
  });
}

/** Removes a finalizer. A deleted object is no error. @throws RametError `Conflict`: requeue the object */
export async function removeFinalizer<T extends KubeObject>(
  resource: ResourceClient<T>,
  object: T,
  finalizer: string,
): Promise<void> {
  const { uid, resourceVersion, finalizers = [] } = object.metadata;
  if (!finalizers.includes(finalizer)) return;
  const others = finalizers.filter((other) => other !== finalizer);
  try {
    await resource.mergePatch(object.metadata, { metadata: { uid, resourceVersion, finalizers: others } });
  } catch (error) {
    if (RametError.from(error).code !== "NotFound") throw error;
  }
}
