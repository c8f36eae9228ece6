import { CapturedVolume } from "../../../api/kinds/checkpoint.ts";
import { labels } from "../../../api/names/labels.ts";
import type { KubeClient } from "../../../kube/kube-client.ts";
import {
  type GroupKinds,
  groupKindsOf,
  type GroupSnapshot,
  type GroupSnapshotContent,
} from "../../../kube/volumes/group-snapshots.ts";
import { type Snapshot, snapshotsIn } from "../../../kube/volumes/snapshots.ts";
import type { CheckpointName } from "../../backend.ts";
import type { SnapshotOfVolume } from "../captured-volume.ts";
import { type GroupRecord, groupRecord } from "./group-record.ts";

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
