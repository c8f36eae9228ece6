import { createHash } from "node:crypto";
import * as z from "zod";
import { CapturedVolume } from "../../api/kinds/checkpoint.ts";
import { annotations, labels } from "../../api/names/labels.ts";
import type { VolumeClaim } from "../../api/pod/volume-claims.ts";
import { jsonValue } from "../../base/canonical-json.ts";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import type { KubeManifest } from "../../kube/object.ts";
import type { Snapshot } from "../../kube/volumes/snapshots.ts";
import { type Claim, type Volume, claimsIn, volumesIn } from "../../kube/volumes/volumes.ts";
import type { CheckpointName } from "../backend.ts";

/** A volume that is to be captured. Everything that a restore needs is known before the capture. */
type VolumeToCapture = Omit<CapturedVolume, "snapshot" | "groupSnapshot">;

export interface SnapshotOfVolume {
  snapshot: Snapshot;
  volume: CapturedVolume;
}

/** The record of a volume in its VolumeSnapshot, so that its part can be described again after a crash. */
const Recorded = CapturedVolume.omit({ snapshot: true, groupSnapshot: true }).extend({
  /** The name of its VolumeSnapshot, if the Checkpoint requests one. */
  name: z.string().optional(),
  /** Absent: the volume was imported. */
  claimUid: z.string().optional(),
  /** How many volumes the checkpoint has. */
  ofVolumes: z.number(),
  /** Why it is not captured in a group with others of its driver. */
  groupNote: z.string().optional(),
});
type Recorded = z.infer<typeof Recorded>;

/** The start of the name of every VolumeSnapshot and VolumeGroupSnapshot that Ramet creates. */
export const snapshotPrefix = "ramet-";

/** The name of the VolumeSnapshot of one claim. A repeated capture finds it. */
export function snapshotName({ checkpointId }: CheckpointName, claim: string): string {
  const hash = createHash("sha256").update(claim).digest("hex").slice(0, 10);
  return `${snapshotPrefix}${checkpointId}-${hash}`;
}

/** The id of the checkpoint in the name of a VolumeSnapshot or VolumeGroupSnapshot. Others may have such a name too. */
export function checkpointOfSnapshot(name: string): string | undefined {
  return /^ramet-(.+)-[0-9a-f]{10}$/.exec(name)?.[1];
}

/** The VolumeSnapshot of a claim. It has no owner: the Checkpoint's finalizer removes it, and its source may be deleted before. */
export function snapshotManifest(name: CheckpointName, recorded: Recorded, className: string): KubeManifest {
  return {
    apiVersion: "snapshot.storage.k8s.io/v1",
    kind: "VolumeSnapshot",
    metadata: {
      namespace: name.namespace,
      name: recorded.name ?? snapshotName(name, recorded.claim),
      labels: { [labels.checkpointId]: name.checkpointId },
      annotations: { [annotations.capturedVolume]: JSON.stringify(recorded) },
    },
    spec: { volumeSnapshotClassName: className, source: { persistentVolumeClaimName: recorded.claim } },
  };
}

/** The volume that a VolumeSnapshot captured; undefined if it is not one of this checkpoint, or if somebody has changed it. */
export function capturedVolume(name: CheckpointName, snapshot: Snapshot): CapturedVolume | undefined {
  const { metadata, spec } = snapshot;
  const recorded = recordedIn(snapshot);
  if (recorded === undefined || metadata.name !== (recorded.name ?? snapshotName(name, recorded.claim)))
    return undefined;
  const { claimUid: _, ofVolumes: __, groupNote: ___, name: ____, ...volume } = recorded;
  const { persistentVolumeClaimName: source } = spec?.source ?? {};
  return source === undefined || source === recorded.claim ? { ...volume, snapshot: metadata.name } : undefined;
}

/** Whether the Checkpoint has requested the name of its VolumeSnapshot, which then does not identify the Checkpoint. */
export function hasRequestedName(snapshot: Snapshot): boolean {
  return recordedIn(snapshot)?.name !== undefined;
}

/** How many volumes the checkpoint of a VolumeSnapshot has. */
export function numberOfVolumes(snapshot: Snapshot): number {
  return recordedIn(snapshot)?.ofVolumes ?? 0;
}

/** Why a VolumeSnapshot is no member of a group. */
export function groupNoteOf(snapshot: Snapshot): string | undefined {
  return recordedIn(snapshot)?.groupNote;
}

function recordedIn({ metadata }: Snapshot): Recorded | undefined {
  return Recorded.safeParse(jsonValue(metadata.annotations?.[annotations.capturedVolume])).data;
}

export interface CapturableVolume extends VolumeToCapture {
  claimUid: string;
}

/**
 * Reads the facts about each claim before its capture. A claim that several volumes mount is captured once.
 * @throws RametError `NotFound`, `Conflict` (retryable) or `NotSupported`, before anything is created
 */
export async function volumesToCapture(
  client: KubeClient,
  namespace: string,
  claims: readonly VolumeClaim[],
): Promise<CapturableVolume[]> {
  const once = [...new Map(claims.map((one) => [one.claim, one])).values()];
  return Promise.all(once.map((one) => volumeOf(client, namespace, one)));
}

async function volumeOf(client: KubeClient, namespace: string, { volume, claim: name }: VolumeClaim) {
  const claim = await claimsIn(client).find({ namespace, name });
  if (claim === undefined) throw refused("NotFound", name, "it does not exist");
  const problem = problemOf(claim);
  if (problem !== undefined) throw problem;
  const { volumeName = "" } = claim.spec;
  const bound = await volumesIn(client).find({ name: volumeName });
  if (bound === undefined) throw refused("NotFound", name, `its PersistentVolume ${volumeName} does not exist`);
  return { volume, claim: name, claimUid: claim.metadata.uid, ...restoreNeeds(claim), driver: driverOf(claim, bound) };
}

function problemOf({ metadata, status }: Claim): RametError | undefined {
  const { name, deletionTimestamp } = metadata;
  if (deletionTimestamp !== undefined) return refused("NotSupported", name, "it is being deleted");
  if (status?.phase === "Lost") return refused("NotFound", name, "its PersistentVolume was deleted");
  if (status?.phase === "Bound") return undefined;
  return refused("Conflict", name, "it is not bound to a volume yet", "Wait until a Pod mounts it");
}

function driverOf({ metadata: { name, uid } }: Claim, { metadata, spec }: Volume): string {
  if (spec.claimRef?.uid !== undefined && spec.claimRef.uid !== uid)
    throw refused("NotSupported", name, `its PersistentVolume ${metadata.name} is bound to another claim`);
  if (spec.csi !== undefined) return spec.csi.driver;
  throw refused(
    "NotSupported",
    name,
    `its PersistentVolume ${metadata.name} is of no CSI driver: only those have snapshots`,
    "Use a StorageClass of a CSI driver, or leave the volume out with spec.volumes",
  );
}

function restoreNeeds({ spec }: Claim) {
  const { accessModes, storageClassName, volumeMode } = spec;
  return defined({ accessModes, storageClassName, volumeMode });
}

function refused(code: "NotFound" | "NotSupported" | "Conflict", claim: string, why: string, hint?: string) {
  const what = `The PersistentVolumeClaim ${claim} cannot be captured: ${why}`;
  return new RametError(code, what, { hint, retryable: code === "Conflict" });
}
