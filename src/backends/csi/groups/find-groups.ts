import { createHash } from "node:crypto";
import * as z from "zod";
import { CapturedVolume } from "../../../api/kinds/checkpoint.ts";
import { annotations, checkpointOfGroupLabel, groupLabel, labels } from "../../../api/names/labels.ts";
import { jsonValue } from "../../../base/canonical-json.ts";
import { unlessCode } from "../../../base/errors.ts";
import type { KubeClient } from "../../../kube/kube-client.ts";
import type { KubeManifest } from "../../../kube/object.ts";
import {
  type GroupKinds,
  type GroupSnapshot,
  type GroupSnapshotContent,
  type Snapshot,
  groupKindsOf,
  snapshotsIn,
} from "../../../kube/volumes/snapshots.ts";
import { type Claim, claimsIn } from "../../../kube/volumes/volumes.ts";
import type { CheckpointName } from "../../backend.ts";
import { type CapturableVolume, type SnapshotOfVolume, snapshotPrefix } from "../captured-volume.ts";

export interface FoundGroup {
  group: GroupSnapshot;
  record: GroupRecord;
}

/** The groups of a checkpoint. Others with its label, which a user may have created, are left alone. */
export async function groupsOf({ groups }: GroupKinds, name: CheckpointName): Promise<FoundGroup[]> {
  const { items } = await groups.list({
    namespace: name.namespace,
    labelSelector: `${labels.checkpointId}=${name.checkpointId}`,
  });
  return items.flatMap((group) => {
    const record = groupRecord(name, group);
    return record === undefined ? [] : [{ group, record }];
  });
}

/** The kinds of groups and the groups of a checkpoint that are not being deleted; undefined without the kinds. */
export async function findGroups(
  client: KubeClient,
  name: CheckpointName,
): Promise<{ kinds: GroupKinds; groups: FoundGroup[] } | undefined> {
  const kinds = await groupKindsOf(client);
  if (kinds === undefined) return undefined;
  const groups = await groupsOf(kinds, name);
  return { kinds, groups: groups.filter(({ group }) => group.metadata.deletionTimestamp === undefined) };
}

/**
 * The VolumeSnapshots that the snapshot-controller created for a group, also of claims that it does not record. It adds its owner
 * reference to others with the data of a member, too, which somebody has imported.
 */
export async function allMembers(client: KubeClient, { metadata }: GroupSnapshot): Promise<Snapshot[]> {
  const { items } = await snapshotsIn(client).list({ namespace: metadata.namespace });
  return items.filter(
    ({ metadata: { ownerReferences = [] }, spec }) =>
      spec?.source.persistentVolumeClaimName !== undefined && ownerReferences.some(({ uid }) => uid === metadata.uid),
  );
}

/** The members with the volumes that they capture, as far as they exist. They are found by their claims. */
export async function membersOf(client: KubeClient, { group, record }: FoundGroup): Promise<SnapshotOfVolume[]> {
  const members = await allMembers(client, group);
  return record.volumes.flatMap(({ claimUid: _, ...volume }) => {
    const snapshot = members.find(({ spec }) => spec?.source.persistentVolumeClaimName === volume.claim);
    if (snapshot === undefined) return [];
    const captured = { ...volume, snapshot: snapshot.metadata.name, groupSnapshot: group.metadata.name };
    return [{ snapshot, volume: CapturedVolume.parse(captured) }];
  });
}

/** The content of a group if it has one. The content of another group is never returned. */
export async function contentOfGroup(
  { contents }: GroupKinds,
  { metadata, status }: GroupSnapshot,
): Promise<GroupSnapshotContent | undefined> {
  // The snapshot-controller chooses this name before it writes the status.
  const name = status?.boundVolumeGroupSnapshotContentName ?? `groupsnapcontent-${metadata.uid}`;
  const content = await contents.find({ name });
  return content?.spec.volumeGroupSnapshotRef.uid === metadata.uid ? content : undefined;
}

/** Labels the claims of a group, so that its selector finds exactly them. @throws RametError if one was replaced meanwhile */
export async function labelClaims(client: KubeClient, name: CheckpointName, group: VolumeGroup): Promise<void> {
  const { namespace } = name;
  await Promise.all(
    group.volumes.map(({ claim, claimUid: uid }) =>
      claimsIn(client).mergePatch(
        { namespace, name: claim },
        { metadata: { uid, labels: selectorOf(name, group.driver) } },
      ),
    ),
  );
}

/** Removes the labels of a checkpoint's groups from all claims, also what an earlier attempt has left. */
export async function unlabelClaims(client: KubeClient, { namespace, checkpointId }: CheckpointName): Promise<void> {
  const label = groupLabel(checkpointId);
  const { items } = await claimsIn(client).list({ namespace, labelSelector: label });
  await Promise.all(items.map((claim) => removeLabel(client, claim, label)));
}

export function checkpointsOnClaim({ metadata }: Claim): CheckpointName[] {
  return Object.keys(metadata.labels ?? {}).flatMap((label) => {
    const checkpointId = checkpointOfGroupLabel(label);
    return checkpointId === undefined ? [] : [{ namespace: metadata.namespace ?? "", checkpointId }];
  });
}

async function removeLabel(client: KubeClient, { metadata }: Claim, label: string): Promise<void> {
  const { uid } = metadata;
  await claimsIn(client)
    .mergePatch(metadata, { metadata: { uid, labels: { [label]: null } } })
    // It was deleted, or replaced by another claim of the same name.
    .catch(unlessCode("NotFound", "Conflict"));
}

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
