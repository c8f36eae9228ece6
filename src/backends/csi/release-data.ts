import { createHash } from "node:crypto";
import type { ImportedVolume } from "../../api/kinds/volume-import.ts";
import { annotations, labels } from "../../api/names/labels.ts";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import type { KubeManifest } from "../../kube/object.ts";
import { type SnapshotContent, snapshotContentsIn } from "../../kube/volumes/snapshots.ts";
import type { CheckpointName } from "../backend.ts";
import { checkpointOfSnapshot, snapshotManifest, snapshotName } from "./captured-volume.ts";

/**
 * Decides what becomes of the data of a content whose checkpoint is removed: several contents can have one snapshot of the driver. The
 * data is deleted with the last of them, if it is this cluster's. Otherwise a content that remains takes over the duty to delete it.
 *
 * First the content is marked, then all are listed. So of two removals at the same moment, at least one sees the mark of the other; and
 * the duty is handed over only to a content that has not changed since, and so is not marked. What no order of these requests can
 * cause is data that is deleted while another content has it.
 */
export async function releaseData(client: KubeClient, content: SnapshotContent): Promise<"Delete" | "Retain"> {
  if (!(await markReleased(client, content))) return "Retain";
  const contents = snapshotContentsIn(client);
  for (let tries = 0; tries < mostTries; tries++) {
    const { items } = await contents.list();
    const own = items.find(({ metadata }) => metadata.uid === content.metadata.uid);
    if (own === undefined || !ownsData(own)) return "Retain";
    const others = items.filter((one) => keepsDataOf(own, one));
    if (others.length === 0) return "Delete";
    // A content that somebody else has created does not know the duty. Its data is kept rather than destroyed.
    const heir = others.find(ownsData) ?? others.find(isImported);
    if (heir === undefined || ownsData(heir) || (await handOver(client, heir))) return "Retain";
  }
  return "Retain";
}

const mostTries = 10;

/** Whether a content that is being removed has this snapshot of the driver. */
export function isReleased(content: SnapshotContent): boolean {
  const { deletionTimestamp, annotations: notes } = content.metadata;
  return deletionTimestamp !== undefined || notes?.[annotations.releasing] === "true";
}

/** Whether a content that is being removed may delete its data. The duty to do so is never handed over to it. */
export function mayDeleteData(content: SnapshotContent): boolean {
  return isReleased(content) && (ownsData(content) || content.spec.deletionPolicy === "Delete");
}

export function hasSameData(a: SnapshotContent, b: SnapshotContent): boolean {
  const handle = handleOf(a);
  return handle !== undefined && a.spec.driver === b.spec.driver && handleOf(b) === handle;
}

function keepsDataOf(own: SnapshotContent, other: SnapshotContent): boolean {
  return other.metadata.uid !== own.metadata.uid && hasSameData(own, other) && !isReleased(other);
}

export function handleOf({ status, spec }: SnapshotContent): string | undefined {
  return status?.snapshotHandle ?? spec.source?.snapshotHandle;
}

/** Marks a content as one that no longer keeps the data of others. Returns whether it still exists. */
export async function markReleased(client: KubeClient, { metadata }: SnapshotContent): Promise<boolean> {
  if (metadata.annotations?.[annotations.releasing] === "true") return true;
  const { uid } = metadata;
  return exists(
    snapshotContentsIn(client).mergePatch(metadata, {
      metadata: { uid, annotations: { [annotations.releasing]: "true" } },
    }),
  );
}

/** Returns whether the other content has the duty now. If it has changed, it may be in its own removal. */
async function handOver(client: KubeClient, { metadata }: SnapshotContent): Promise<boolean> {
  const { uid, resourceVersion } = metadata;
  return exists(
    snapshotContentsIn(client).mergePatch(metadata, {
      metadata: { uid, resourceVersion, annotations: { [annotations.ownsData]: "true" } },
    }),
  );
}

async function exists(change: Promise<unknown>): Promise<boolean> {
  try {
    await change;
    return true;
  } catch (thrown) {
    const error = RametError.from(thrown);
    // Another object of the name has another UID, which is a conflict.
    if (error.code === "NotFound" || error.code === "Conflict") return false;
    throw error;
  }
}

/** The name of the content of an imported VolumeSnapshot. A repeated import finds it. */
export function importedContentName(namespace: string, snapshot: string): string {
  return `ramet-import-${createHash("sha256").update(`${namespace}/${snapshot}`).digest("hex").slice(0, 40)}`;
}

/** Whether Ramet has imported a content. Only a user with the right to create contents could give another one such a name. */
export function isImported({ metadata, spec }: SnapshotContent): boolean {
  const { namespace, name } = spec.volumeSnapshotRef;
  const isPossible = namespace !== undefined && name !== undefined && checkpointOfSnapshot(name) !== undefined;
  return isPossible && metadata.name === importedContentName(namespace, name);
}

/** The content of a volume that is to be imported. It keeps its data until the checkpoint's removal decides otherwise. */
export function importedContent(name: CheckpointName, volume: ImportedVolume, className: string): KubeManifest {
  const snapshot = snapshotName(name, volume.volume);
  const { driver, snapshotHandle, volumeMode: sourceVolumeMode = "Filesystem" } = volume;
  return {
    apiVersion: "snapshot.storage.k8s.io/v1",
    kind: "VolumeSnapshotContent",
    metadata: {
      name: importedContentName(name.namespace, snapshot),
      labels: { [labels.checkpointId]: name.checkpointId },
    },
    spec: {
      driver,
      deletionPolicy: "Retain",
      volumeSnapshotClassName: className,
      source: { snapshotHandle },
      sourceVolumeMode,
      volumeSnapshotRef: {
        apiVersion: "snapshot.storage.k8s.io/v1",
        kind: "VolumeSnapshot",
        namespace: name.namespace,
        name: snapshot,
      },
    },
  };
}

/** The VolumeSnapshot of an imported content. It has the same shape as that of a captured volume, so both are removed alike. */
export function importedSnapshot(
  name: CheckpointName,
  { volume, ofVolumes }: { volume: ImportedVolume; ofVolumes: number },
  className: string,
): KubeManifest {
  const recorded = { ...describedVolume(volume), ofVolumes };
  const { metadata, ...rest } = snapshotManifest(name, recorded, className);
  const source = { volumeSnapshotContentName: importedContentName(name.namespace, metadata.name ?? "") };
  return { ...rest, metadata, spec: { volumeSnapshotClassName: className, source } };
}

export function describedVolume({ volume, driver, storageClassName, accessModes, volumeMode }: ImportedVolume) {
  return {
    volume,
    claim: volume,
    driver,
    accessModes: accessModes ?? ["ReadWriteOnce"],
    ...defined({ storageClassName, volumeMode }),
  };
}

/** Whether the data of a content is this cluster's to delete: it was captured here, or an import took it over. */
export function ownsData(content: SnapshotContent): boolean {
  if (content.spec.source?.volumeHandle !== undefined) return true;
  return isImported(content) && content.metadata.annotations?.[annotations.ownsData] === "true";
}
