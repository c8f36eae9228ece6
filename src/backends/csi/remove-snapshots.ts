import { labels } from "../../api/names/labels.ts";
import { defined } from "../../base/defined.ts";
import { RametError, unlessCode } from "../../base/errors.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import type { KubeObject } from "../../kube/object.ts";
import type { ResourceClient } from "../../kube/resource-client.ts";
import {
  type Snapshot,
  type SnapshotContent,
  contentAnnotations,
  snapshotContentsIn,
  snapshotsIn,
  volumeFinalizers,
} from "../../kube/volumes/snapshots.ts";
import { waitUntil } from "../../kube/wait-until.ts";
import type { CheckpointName } from "../backend.ts";
import { capturedVolume } from "./captured-volume.ts";
import { isImported, releaseData } from "./release-data.ts";

/** The VolumeSnapshots of a checkpoint. Others with its label, which a user may have created, are left alone. */
export async function snapshotsOf(client: KubeClient, name: CheckpointName): Promise<Snapshot[]> {
  const { items } = await snapshotsIn(client).list({
    namespace: name.namespace,
    labelSelector: `${labels.checkpointId}=${name.checkpointId}`,
  });
  return items.filter((one) => capturedVolume(name, one) !== undefined);
}

/** The name that the snapshot-controller gives to a content before it writes the status of the VolumeSnapshot. */
function contentNameOf({ metadata, status }: Snapshot): string {
  const bound = status?.boundVolumeSnapshotContentName;
  return bound === undefined || bound === "" ? `snapcontent-${metadata.uid}` : bound;
}

/** The content of a VolumeSnapshot if it has one. The content of another VolumeSnapshot is never returned. */
export async function contentOf(client: KubeClient, snapshot: Snapshot): Promise<SnapshotContent | undefined> {
  const content = await snapshotContentsIn(client).find({ name: contentNameOf(snapshot) });
  return content?.spec.volumeSnapshotRef.uid === snapshot.metadata.uid ? content : undefined;
}

/**
 * Sets whether a content's data is kept when its VolumeSnapshot is deleted. A content that somebody else has imported is left alone:
 * its data may belong to others.
 * @param memberOf the checkpoint of a group's member, whose name does not tell it: the sweep finds the content by a label
 */
export async function setDeletionPolicy(
  client: KubeClient,
  content: SnapshotContent,
  deletionPolicy: "Delete" | "Retain",
  memberOf?: CheckpointName,
): Promise<void> {
  const { metadata, spec } = content;
  const label = memberOf && { [labels.checkpointId]: memberOf.checkpointId };
  const isLabelled = !memberOf || metadata.labels?.[labels.checkpointId] === memberOf.checkpointId;
  if (!isRamets(content) || (spec.deletionPolicy === deletionPolicy && isLabelled)) return;
  await snapshotContentsIn(client).mergePatch(metadata, {
    metadata: defined({ uid: metadata.uid, labels: label }),
    spec: { deletionPolicy },
  });
}

/** The snapshot-controller takes less than a second. A longer wait, such as for a driver that does not respond, takes minutes. */
const removalMilliseconds = 10_000;

/**
 * Deletes a VolumeSnapshot together with its data, if no other content has that. First the content is told to delete its data, then the
 * VolumeSnapshot is deleted, and the sidecar deletes the data and the content. Waits a moment until the VolumeSnapshot is gone; later, a
 * repeat continues.
 * @throws RametError `Unavailable` (retryable) while it is not gone
 */
export async function removeSnapshot(client: KubeClient, snapshot: Snapshot): Promise<void> {
  const content = await contentOf(client, snapshot);
  if (content !== undefined && isRamets(content))
    await setDeletionPolicy(client, content, await releaseData(client, content));
  const { metadata } = snapshot;
  if (metadata.deletionTimestamp === undefined) await snapshotsIn(client).delete(metadata, { uid: metadata.uid });
  await untilGone(snapshotsIn(client), snapshot);
  const late = await contentOf(client, snapshot);
  if (late !== undefined && isOrphaned(late)) await removeOrphan(client, late);
}

/** Whether nobody deletes a content whose VolumeSnapshot is gone. One that somebody else has imported is not Ramet's to delete. */
export function isOrphaned(content: SnapshotContent): boolean {
  return content.metadata.deletionTimestamp === undefined && isRamets(content);
}

/** Whether the content of a Checkpoint's VolumeSnapshot was created by the snapshot-controller or by an import of Ramet. */
export function isRamets(content: SnapshotContent): boolean {
  return content.spec.source?.volumeHandle !== undefined || isImported(content);
}

/** Waits a moment. @throws RametError `Unavailable` (retryable) if the object is still there */
export async function untilGone<T extends KubeObject>(resource: ResourceClient<T>, { metadata }: T): Promise<void> {
  const from = await resource.find(metadata);
  if (from?.metadata.uid !== metadata.uid) return;
  let last: T = from;
  const isGone = (now: T | undefined): boolean => {
    last = now ?? last;
    return now === undefined;
  };
  await waitUntil({ resource, from, until: isGone, timeoutMilliseconds: removalMilliseconds }).catch(
    (error: unknown) => {
      throw RametError.from(error).code === "Timeout" ? stillThere(resource.ref.kind, last) : error;
    },
  );
}

/**
 * Deletes a content that its VolumeSnapshot has left behind: the content was created late, somebody else deleted the VolumeSnapshot,
 * or the snapshot-controller had not seen yet that it was told to delete its data. Without the annotation of the
 * snapshot-controller, the sidecar would keep both. Data that another content has, or that is not this cluster's, is kept.
 * @param decided what becomes of the data, if that is known
 */
export async function removeOrphan(
  client: KubeClient,
  content: SnapshotContent,
  decided?: "Delete" | "Retain",
): Promise<void> {
  const contents = snapshotContentsIn(client);
  const { metadata } = content;
  const deletionPolicy = decided ?? (await releaseData(client, content));
  const annotation = contentAnnotations.beingDeleted;
  await deleteContent(contents, metadata, { annotation, deletionPolicy }).catch(unlessCode("NotFound"));
  // The sidecar removes it too. There is none if the driver of an import does not run here, and without data nothing waits for it.
  if (deletionPolicy === "Retain") await removeFinalizer(contents, metadata, volumeFinalizers.content, () => true);
}

/** Deletes a content as the snapshot-controller does. @param annotation the one that shows the sidecar the deletion */
export async function deleteContent<T extends KubeObject>(
  contents: ResourceClient<T>,
  at: KubeObject["metadata"],
  { annotation, deletionPolicy }: { annotation: string; deletionPolicy: "Delete" | "Retain" },
): Promise<void> {
  const { uid } = at;
  await contents.mergePatch(at, { metadata: { uid, annotations: { [annotation]: "yes" } }, spec: { deletionPolicy } });
  await contents.delete(at, { uid });
}

/** Removes a finalizer from an object that still exists, unless somebody else changes it meanwhile. */
export async function removeFinalizer<T extends KubeObject>(
  resource: ResourceClient<T>,
  at: KubeObject["metadata"],
  finalizer: string,
  mayRemove: (found: T) => boolean,
): Promise<void> {
  const found = await resource.find(at);
  if (found?.metadata.uid !== at.uid || !mayRemove(found)) return;
  const { uid, resourceVersion, finalizers = [] } = found.metadata;
  const kept = finalizers.filter((one) => one !== finalizer);
  const patch = { metadata: { uid, resourceVersion, finalizers: kept } };
  await resource.mergePatch(at, patch).catch(unlessCode("NotFound", "Conflict"));
}

function stillThere(kind: string, { metadata: { name, finalizers = [] } }: KubeObject): RametError {
  return new RametError(
    "Unavailable",
    `The ${kind} ${name} is being deleted, and ${finalizers.length === 0 ? "is still there" : `still has the finalizers ${finalizers.join(", ")}`}`,
    { retryable: true, hint: `Ask for the cause with: ramet explain ${kind.toLowerCase()}/${name}` },
  );
}
