import { annotations } from "../../api/names/labels.ts";
import { RametError } from "../../base/errors.ts";
import type { KubeObject } from "../../kube/object.ts";
import type { ResourceClient } from "../../kube/resource-client.ts";

/**
 * Changes a content that is being deleted, so that the sidecar looks at it. It may have missed the deletion of a content that it
 * had just completed, and would see it only at its next resync.
 */
export async function touch<T extends KubeObject>(
  contents: ResourceClient<T>,
  { metadata }: T,
  now: Date,
): Promise<void> {
  await contents
    .mergePatch(metadata, {
      metadata: { uid: metadata.uid, annotations: { [annotations.retry]: now.toISOString() } },
    })
    .catch((error: unknown) => {
      if (!["NotFound", "Conflict"].includes(RametError.from(error).code)) throw error;
    });
}
