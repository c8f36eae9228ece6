import { CapturedVolume } from "../../../api/kinds/checkpoint.ts";
import { labels, checkpointOfGroupLabel, groupLabel } from "../../../api/names/labels.ts";
import { unlessCode } from "../../../base/errors.ts";
import type { KubeClient } from "../../../kube/kube-client.ts";
import {
  type Snapshot,
  snapshotsIn,
  type GroupKinds,
  groupKindsOf,
  type GroupSnapshot,
  type GroupSnapshotContent,
} from "../../../kube/volumes/snapshots.ts";
import { type Claim, claimsIn } from "../../../kube/volumes/volumes.ts";
import type { CheckpointName } from "../../backend.ts";
import type { SnapshotOfVolume } from "../captured-volume.ts";
import { type GroupRecord, groupRecord, selectorOf, type VolumeGroup } from "./group-record.ts";

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
