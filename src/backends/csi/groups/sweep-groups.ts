import { labels } from "../../../api/names/labels.ts";
import type { KubeClient } from "../../../kube/kube-client.ts";
import {
  type GroupKinds,
  groupKindsOf,
  type GroupSnapshot,
  type GroupSnapshotContent,
} from "../../../kube/volumes/group-snapshots.ts";
import { type SnapshotContent, snapshotContentsIn } from "../../../kube/volumes/snapshots.ts";
import { claimsIn } from "../../../kube/volumes/volumes.ts";
import type { CheckpointName, Swept } from "../../backend.ts";
import { checkpointOfSnapshot } from "../captured-volume.ts";
import { isImported } from "../imported-content.ts";
import { isOld, isRemoved, isServed, type SweepSnapshotsOptions } from "../sweep-rules.ts";
import { checkpointsOnClaim, unlabelClaims } from "./claim-labels.ts";
import { releaseGroupData, removeGroup, removeGroupContent } from "./remove-group.ts";
import { groupRecord } from "./group-record.ts";

/** Removes the groups of checkpoints without an object, the contents that groups have left behind, and labels of claims. */
export async function sweepGroups(options: SweepSnapshotsOptions, swept: Swept): Promise<void> {
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
    const name = checkpointOf(group);
    if (groupRecord(name, group) === undefined) continue;
    if (isOld(client, group, options) && (await liveness(name)) === "absent") {
      swept.checkpoints.push(name);
      await isRemoved(removeGroup(client, kinds, group));
    } else if (group.metadata.deletionTimestamp === undefined) swept.kept.push(name);
  }
}

function checkpointOf({ metadata }: GroupSnapshot): CheckpointName {
  return { namespace: metadata.namespace ?? "", checkpointId: metadata.labels?.[labels.checkpointId] ?? "" };
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
  const labelled = new Map(
    items.flatMap(checkpointsOnClaim).map((name) => [`${name.namespace}/${name.checkpointId}`, name]),
  );
  for (const name of labelled.values()) if ((await liveness(name)) !== "unfinished") await unlabelClaims(client, name);
}
