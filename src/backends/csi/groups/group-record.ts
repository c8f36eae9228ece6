import { createHash } from "node:crypto";
import * as z from "zod";
import { CapturedVolume } from "../../../api/kinds/checkpoint.ts";
import { annotations, groupLabel, labels } from "../../../api/names/labels.ts";
import { jsonValue } from "../../../base/canonical-json.ts";
import type { KubeManifest } from "../../../kube/object.ts";
import type { GroupSnapshot } from "../../../kube/volumes/snapshots.ts";
import type { CheckpointName } from "../../backend.ts";
import { snapshotPrefix } from "../captured-volume.ts";
import type { CapturableVolume } from "../volumes-to-capture.ts";

/** The record of the volumes in a VolumeGroupSnapshot. The snapshot-controller chooses the names of the members. */
const GroupRecord = z.object({
  driver: z.string(),
  /** How many volumes the checkpoint has, with those outside of this group. */
  ofVolumes: z.number(),
  volumes: z.array(CapturedVolume.omit({ snapshot: true, groupSnapshot: true }).extend({ claimUid: z.string() })),
});
export type GroupRecord = z.infer<typeof GroupRecord>;

/** Volumes of one driver that are captured together. */
export interface VolumeGroup {
  driver: string;
  volumes: CapturableVolume[];
  ofVolumes: number;
}

/** The name of the VolumeGroupSnapshot of one driver. A repeated capture finds it. */
export function groupName({ checkpointId }: CheckpointName, driver: string): string {
  return `${snapshotPrefix}${checkpointId}-${hashOf(driver)}`;
}

/** The label of the claims that a group captures. A claim has one driver, and may be captured for several checkpoints. */
export function selectorOf({ checkpointId }: CheckpointName, driver: string): Record<string, string> {
  return { [groupLabel(checkpointId)]: hashOf(driver) };
}

/** The VolumeGroupSnapshot of volumes. As a VolumeSnapshot of a checkpoint, it has no owner. */
export function groupManifest(
  name: CheckpointName,
  { apiVersion, className, ...record }: VolumeGroup & { apiVersion: string; className: string },
): KubeManifest {
  const { namespace, checkpointId } = name;
  return {
    apiVersion,
    kind: "VolumeGroupSnapshot",
    metadata: {
      namespace,
      name: groupName(name, record.driver),
      labels: { [labels.checkpointId]: checkpointId },
      annotations: { [annotations.capturedVolume]: JSON.stringify(record) },
    },
    spec: {
      volumeGroupSnapshotClassName: className,
      source: { selector: { matchLabels: selectorOf(name, record.driver) } },
    },
  };
}

/** Reads the record of a group; undefined if it is not one of this checkpoint, or if somebody has changed it. */
export function groupRecord(name: CheckpointName, { metadata }: GroupSnapshot): GroupRecord | undefined {
  const { data } = GroupRecord.safeParse(jsonValue(metadata.annotations?.[annotations.capturedVolume]));
  return data !== undefined && metadata.name === groupName(name, data.driver) ? data : undefined;
}

function hashOf(driver: string): string {
  return createHash("sha256").update(driver).digest("hex").slice(0, 10);
}
