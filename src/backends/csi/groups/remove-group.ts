import { unlessCode } from "../../../base/errors.ts";
import type { KubeClient } from "../../../kube/kube-client.ts";
import {
  groupContentAnnotations,
  groupFinalizers,
  type SnapshotContent,
  snapshotContentsIn,
  snapshotsIn,
  type GroupKinds,
  groupKindsOf,
  type GroupSnapshot,
  type GroupSnapshotContent,
} from "../../../kube/volumes/snapshots.ts";
import type { CheckpointName } from "../../backend.ts";
import {
  contentOf,
  deleteContent,
  isOrphaned,
  removeFinalizer,
  removeOrphan,
  setDeletionPolicy,
  untilGone,
} from "../remove-snapshots.ts";
import { touch } from "../sweep-rules.ts";
import { allMembers, contentOfGroup, groupsOf, unlabelClaims } from "./find-groups.ts";
import { handleOf, isReleased, markReleased } from "../release-data.ts";

/** Removes the groups of a checkpoint with their data, and the labels of its claims. @throws as {@link removeGroup} */
export async function removeGroups(client: KubeClient, name: CheckpointName): Promise<void> {
  const kinds = await groupKindsOf(client);
  if (kinds === undefined) return;
  for (const { group } of await groupsOf(kinds, name)) await removeGroup(client, kinds, group);
  await unlabelClaims(client, name);
}

/** Sets whether a group's data is kept when the group is deleted. Its sidecar deletes the data of all members together. */
export async function setGroupPolicy(
  { contents }: GroupKinds,
  { metadata, spec }: GroupSnapshotContent,
  deletionPolicy: "Delete" | "Retain",
): Promise<void> {
  if (spec.deletionPolicy === deletionPolicy) return;
  await contents.mergePatch(metadata, { metadata: { uid: metadata.uid }, spec: { deletionPolicy } });
}

/** Whether the sidecar has begun to capture a group. Until then, no data exists. */
export function isHandled({ metadata, status }: GroupSnapshotContent): boolean {
  return status !== undefined || metadata.annotations?.[groupContentAnnotations.beingCreated] !== undefined;
}

/**
 * Deletes a group with its members and their data. First the contents are told to delete their data, then the group is deleted, and
 * the sidecar and the snapshot-controller delete the rest: first the data and the content of the group, then the group, then each
 * member. Waits a moment until all are gone; later, a repeat continues.
 * @throws RametError `Unavailable` (retryable) while something is not gone
 */
export async function removeGroup(client: KubeClient, kinds: GroupKinds, group: GroupSnapshot): Promise<void> {
  const members = await allMembers(client, group);
  const ofMembers = (await Promise.all(members.map((member) => contentOf(client, member)))).filter(
    (one) => one !== undefined,
  );
  const content = await contentOfGroup(kinds, group);
  const policy = await releaseGroupData(client, content, ofMembers);
  for (const one of ofMembers) await setDeletionPolicy(client, one, policy);
  // The group would wait for the sidecar to delete a content that the sidecar ignores.
  if (content !== undefined) await setGroupPolicy(kinds, content, isHandled(content) ? policy : "Retain");
  if (content?.metadata.deletionTimestamp !== undefined) await touch(kinds.contents, content, client.clock.now());
  const { metadata } = group;
  if (metadata.deletionTimestamp === undefined) await kinds.groups.delete(metadata, { uid: metadata.uid });
  await untilGone(kinds.groups, group);
  // The snapshot-controller decides by its cache, and may have kept contents.
  const late = await contentOfGroup(kinds, group);
  if (late !== undefined) await removeGroupContent(kinds, late, policy);
  for (const member of members) {
    await untilGone(snapshotsIn(client), member);
    const left = await contentOf(client, member);
    if (left !== undefined && isOrphaned(left)) await removeOrphan(client, left, policy);
  }
}

/**
 * Deletes the content of a group that is gone, with the data of its members unless it is shared. Without the annotation of the snapshot-controller, the
 * sidecar would keep both. If no sidecar has begun to capture it, nobody would take its finalizer away.
 */
export async function removeGroupContent(
  { contents }: GroupKinds,
  { metadata }: GroupSnapshotContent,
  deletionPolicy: "Delete" | "Retain",
): Promise<void> {
  const annotation = groupContentAnnotations.beingDeleted;
  await deleteContent(contents, metadata, { annotation, deletionPolicy }).catch(unlessCode("NotFound", "Conflict"));
  // After a conflict, a sidecar has begun, which deletes what it captures.
  await removeFinalizer(contents, metadata, groupFinalizers.content, (left) => !isHandled(left));
}

/**
 * Decides what becomes of the data of a group that is removed. A driver deletes that of all members together, so it stays if another
 * content has the data of any of them, and nobody deletes it then: most drivers refuse to delete a single member.
 * @param members the contents of its members, which no longer keep the data
 */
export async function releaseGroupData(
  client: KubeClient,
  group: GroupSnapshotContent | undefined,
  members: readonly SnapshotContent[],
): Promise<"Delete" | "Retain"> {
  for (const member of members) await markReleased(client, member);
  const own = new Set(members.map(({ metadata }) => metadata.uid));
  const known = [
    ...members.map((one) => dataOf(one.spec.driver, handleOf(one))),
    ...(group?.status?.volumeSnapshotInfoList ?? []).map((one) => dataOf(group?.spec.driver, one.snapshotHandle)),
  ];
  const data = new Set(known.filter((one) => one !== undefined));
  const { items } = await snapshotContentsIn(client).list();
  const others = items.filter((one) => !own.has(one.metadata.uid) && !isReleased(one));
  const isShared = others.some((one) => data.has(dataOf(one.spec.driver, handleOf(one)) ?? ""));
  return isShared ? "Retain" : "Delete";
}

function dataOf(driver = "", handle: string | undefined): string | undefined {
  return handle === undefined ? undefined : `${driver}\n${handle}`;
}
