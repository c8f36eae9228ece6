import { RametError, unlessCode } from "../../base/errors.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import type { KubeObject } from "../../kube/object.ts";
import type { CheckpointLiveness, CheckpointName } from "../backend.ts";
import { annotations } from "../../api/names/labels.ts";
import type { ResourceClient } from "../../kube/resource-client.ts";

export interface SweepSnapshotsOptions {
  client: KubeClient;
  /** The only namespaces to sweep. @default all */
  namespaces?: readonly string[] | undefined;
  /** By then the cache of every controller has the Checkpoint. */
  olderThanMilliseconds: number;
  liveness: (name: CheckpointName) => Promise<CheckpointLiveness>;
  signal: AbortSignal;
}

/** The next sweep continues a removal that takes longer. */
export async function isRemoved(removal: Promise<void>): Promise<boolean> {
  return removal.then(
    () => true,
    (error: unknown) => {
      if (RametError.from(error).retryable) return false;
      throw error;
    },
  );
}

export function isServed({ namespace }: CheckpointName, { namespaces }: SweepSnapshotsOptions): boolean {
  return namespaces?.includes(namespace) ?? true;
}

export function isOld(
  { clock }: KubeClient,
  { metadata }: KubeObject,
  { olderThanMilliseconds }: Pick<SweepSnapshotsOptions, "olderThanMilliseconds">,
): boolean {
  return clock.now().getTime() - Date.parse(metadata.creationTimestamp ?? "") > olderThanMilliseconds;
}

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
    .catch(unlessCode("NotFound", "Conflict"));
}
