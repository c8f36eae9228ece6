import { createHash } from "node:crypto";
import type { ImportedVolume } from "../../api/kinds/volume-import.ts";
import { annotations, labels } from "../../api/names/labels.ts";
import { defined } from "../../base/defined.ts";
import type { KubeManifest } from "../../kube/object.ts";
import type { SnapshotContent } from "../../kube/volumes/snapshots.ts";
import type { CheckpointName } from "../backend.ts";
import { checkpointOfSnapshot, snapshotManifest, snapshotName } from "./captured-volume.ts";

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
