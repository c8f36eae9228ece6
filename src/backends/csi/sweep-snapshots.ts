import { labels } from "../../api/names/labels.ts";
import { RametError } from "../../base/errors.ts";
import { quantityToBytes } from "../../base/quantity.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import type { KubeObject } from "../../kube/object.ts";
import {
  type GroupKinds,
  type GroupSnapshotContent,
  type Snapshot,
  type SnapshotContent,
  groupKindsOf,
  snapshotContentsIn,
  snapshotsIn,
} from "../../kube/volumes/snapshots.ts";
import { claimsIn } from "../../kube/volumes/volumes.ts";
import type { CheckpointName, Swept } from "../backend.ts";
import { capturedVolume, checkpointOfSnapshot, numberOfVolumes } from "./captured-volume.ts";
import { checkpointsOnClaim, groupRecord, unlabelClaims } from "./groups/find-groups.ts";
import { releaseGroupData, removeGroup, removeGroupContent } from "./groups/remove-group.ts";
import { isImported } from "./release-data.ts";
import { isRamets, removeOrphan, removeSnapshot } from "./remove-snapshots.ts";
import { type SweepSnapshotsOptions, isOld, isRemoved, isServed, touch } from "./sweep-rules.ts";

/**
 * Removes the VolumeSnapshots of checkpoints without an object, and the contents that such VolumeSnapshots have left behind, with
 * their data. Those of users, and contents that users have imported, are left alone.
 */
export async function sweepSnapshots(options: SweepSnapshotsOptions): Promise<Swept> {
  const swept: Swept = { checkpoints: [], kept: [], orphans: 0, contents: 0, freedBytes: 0, foreign: [] };
  try {
    for (const snapshots of await byCheckpoint(options)) await sweepCheckpoint(snapshots, { swept, ...options });
    swept.orphans = await sweepContents(options);
    await sweepGroups(options, swept);
  } catch (thrown) {
    // A cluster without the kinds has none.
    if (RametError.from(thrown).code !== "NotFound") throw thrown;
  }
  return swept;
}

async function byCheckpoint({ client, namespaces, signal }: SweepSnapshotsOptions): Promise<Snapshot[][]> {
  const found: Snapshot[] = [];
  for (const namespace of namespaces ?? [undefined]) {
    const { items } = await snapshotsIn(client).list({ namespace, labelSelector: labels.checkpointId, signal });
    found.push(...items.filter((snapshot) => capturedVolume(labelledCheckpoint(snapshot), snapshot) !== undefined));
  }
  return [...Map.groupBy(found, (snapshot) => keyOf(labelledCheckpoint(snapshot))).values()];
}

/** The checkpoint that the label of a VolumeSnapshot or VolumeGroupSnapshot names. */
function labelledCheckpoint({ metadata }: KubeObject): CheckpointName {
  return { namespace: metadata.namespace ?? "", checkpointId: metadata.labels?.[labels.checkpointId] ?? "" };
}

function keyOf({ namespace, checkpointId }: CheckpointName): string {
  return `${namespace}/${checkpointId}`;
}

/** @param snapshots all those of one checkpoint */
async function sweepCheckpoint(
  snapshots: readonly Snapshot[],
  { client, liveness, swept, ...options }: SweepSnapshotsOptions & { swept: Swept },
): Promise<void> {
  let removed = 0;
  const [first] = snapshots;
  if (first === undefined) return;
  const name = labelledCheckpoint(first);
  for (const snapshot of snapshots) {
    if (!isOld(client, snapshot, options) || (await liveness(name)) !== "absent") continue;
    removed += 1;
    if (!(await isRemoved(removeSnapshot(client, snapshot)))) continue;
    const size = snapshot.status?.restoreSize;
    swept.freedBytes += size === undefined ? 0 : quantityToBytes(size, "restoreSize");
  }
  if (removed > 0) swept.checkpoints.push(name);
  else if (isComplete(snapshots)) swept.kept.push(name);
}

function isComplete(snapshots: readonly Snapshot[]): boolean {
  const usable = snapshots.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
  return usable.length >= Math.max(1, ...snapshots.map(numberOfVolumes));
}

/** @returns how many contents were removed */
async function sweepContents(options: SweepSnapshotsOptions): Promise<number> {
  const { client, liveness, signal } = options;
  let removed = 0;
  for (const content of (await snapshotContentsIn(client).list({ signal })).items) {
    const name = checkpointOf(content);
    if (name === undefined || !isServed(name, options) || !isOld(client, content, options)) continue;
    if (content.metadata.deletionTimestamp !== undefined) {
      await touch(snapshotContentsIn(client), content, client.clock.now());
      continue;
    }
    const { name: snapshot = "", uid } = content.spec.volumeSnapshotRef;
    const found = await snapshotsIn(client).find({ namespace: name.namespace, name: snapshot }, { signal });
    // A content that was imported has no UID before it is bound.
    const isNamed = found !== undefined && (uid === undefined || found.metadata.uid === uid);
    if (isNamed || (await liveness(name)) !== "absent") continue;
    await removeOrphan(client, content);
    removed += 1;
  }
  return removed;
}

/**
 * The checkpoint of a content that Ramet has imported, or that the snapshot-controller created for a VolumeSnapshot with the name of one
 * of Ramet's. Whether that VolumeSnapshot is gone is not known yet.
 */
function checkpointOf(content: SnapshotContent): CheckpointName | undefined {
  const { namespace, name = "", uid } = content.spec.volumeSnapshotRef;
  // The name of a group's member does not tell its checkpoint.
  const ofMember = isImported(content) ? undefined : content.metadata.labels?.[labels.checkpointId];
  const checkpointId = ofMember ?? checkpointOfSnapshot(name);
  const isDynamic = uid !== undefined && (ofMember !== undefined || content.metadata.name === `snapcontent-${uid}`);
  const isOwn = (isDynamic || isImported(content)) && isRamets(content);
  return namespace === undefined || checkpointId === undefined || !isOwn ? undefined : { namespace, checkpointId };
}

/** Removes the groups of checkpoints without an object, the contents that groups have left behind, and labels of claims. */
async function sweepGroups(options: SweepSnapshotsOptions, swept: Swept): Promise<void> {
  const kinds = await groupKindsOf(options.client);
  if (kinds === undefined) return;
  for (const namespace of options.namespaces ?? [undefined]) {
    await sweepObjects(kinds, namespace, options, swept);
    await sweepLabels(namespace, options);
  }
  swept.orphans += await sweepGroupContents(kinds, options);
}

async function sweepObjects(
  kinds: GroupKinds,
  namespace: string | undefined,
  { client, liveness, signal, ...options }: SweepSnapshotsOptions,
  swept: Swept,
): Promise<void> {
  const { items } = await kinds.groups.list({ namespace, labelSelector: labels.checkpointId, signal });
  for (const group of items) {
    const name = labelledCheckpoint(group);
    if (groupRecord(name, group) === undefined) continue;
    if (isOld(client, group, options) && (await liveness(name)) === "absent") {
      swept.checkpoints.push(name);
      await isRemoved(removeGroup(client, kinds, group));
    } else if (group.metadata.deletionTimestamp === undefined) swept.kept.push(name);
  }
}

/** @returns how many contents were removed */
async function sweepGroupContents(kinds: GroupKinds, options: SweepSnapshotsOptions): Promise<number> {
  const { client, liveness, signal } = options;
  let removed = 0;
  for (const content of (await kinds.contents.list({ signal })).items) {
    const name = leftBehindBy(content);
    if (name === undefined || !isServed(name, options) || !isOld(client, content, options)) continue;
    const { name: group = "", uid } = content.spec.volumeGroupSnapshotRef;
    const found = await kinds.groups.find({ namespace: name.namespace, name: group }, { signal });
    if (found?.metadata.uid === uid || (await liveness(name)) !== "absent") continue;
    const policy = await releaseGroupData(client, content, await membersLeftBehind(client, name));
    await removeGroupContent(kinds, content, policy);
    removed += 1;
  }
  return removed;
}

/** The contents of the members of a checkpoint's groups. */
async function membersLeftBehind(
  client: KubeClient,
  { namespace, checkpointId }: CheckpointName,
): Promise<SnapshotContent[]> {
  const labelSelector = `${labels.checkpointId}=${checkpointId}`;
  const { items } = await snapshotContentsIn(client).list({ labelSelector });
  return items.filter((one) => one.spec.volumeSnapshotRef.namespace === namespace && !isImported(one));
}

/** The checkpoint of a content that the snapshot-controller created for one of Ramet's groups. An imported one is left alone. */
function leftBehindBy({ metadata, spec }: GroupSnapshotContent): CheckpointName | undefined {
  const { namespace, name = "", uid } = spec.volumeGroupSnapshotRef;
  const checkpointId = checkpointOfSnapshot(name);
  const isDynamic = spec.source.volumeHandles !== undefined && metadata.name === `groupsnapcontent-${uid ?? ""}`;
  if (namespace === undefined || checkpointId === undefined || !isDynamic) return undefined;
  return metadata.deletionTimestamp === undefined ? { namespace, checkpointId } : undefined;
}

/** A capture that was interrupted leaves the labels of its claims, and nobody may repeat it. */
async function sweepLabels(
  namespace: string | undefined,
  { client, liveness, signal }: SweepSnapshotsOptions,
): Promise<void> {
  const { items } = await claimsIn(client).list({ namespace, signal });
  const labelled = new Map(items.flatMap(checkpointsOnClaim).map((name) => [keyOf(name), name]));
  for (const name of labelled.values()) if ((await liveness(name)) !== "unfinished") await unlabelClaims(client, name);
}
