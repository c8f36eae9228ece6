import { defined } from "../../../base/defined.ts";
import { unlessCode } from "../../../base/errors.ts";
import type { KubeClient } from "../../../kube/kube-client.ts";
import type { GroupKinds, GroupSnapshot } from "../../../kube/volumes/snapshots.ts";
import { waitBesidesPreparation } from "../../../kube/volumes/preparation.ts";
import { waitUntil } from "../../../kube/wait-until.ts";
import type { CheckpointName } from "../../backend.ts";
import type { SnapshotOfVolume } from "../captured-volume.ts";
import {
  all,
  type CapturedSnapshot,
  followSnapshot,
  groupRefusal,
  late,
  lost,
  printable,
  type Wanted,
} from "../follow-snapshots.ts";
import { setDeletionPolicy } from "../remove-snapshots.ts";
import { contentOfGroup, type FoundGroup, membersOf } from "./find-groups.ts";
import { isHandled, setGroupPolicy } from "./remove-group.ts";

/** A member of a group whose data is fixed. */
export type CapturedMember = CapturedSnapshot & SnapshotOfVolume;

/** How a group ended: captured, or nobody can capture it as a group. */
type GroupEnd = { captured: GroupSnapshot } | NonNullable<ReturnType<typeof groupRefusal>>;

export interface GroupTimes {
  /** How long the snapshot-controller and the sidecar may take until they begin. */
  beginMilliseconds: number;
  /** How long it may take in all until the data of all members is fixed. */
  captureMilliseconds: number;
  signal: AbortSignal | undefined;
}

/**
 * Waits until a group is captured. Other errors of the driver are no end, because the sidecar repeats what failed.
 * @throws RametError `CheckpointLost` if it is deleted; `VolumeNotCaptured` with the last error of the driver after the timeout
 */
export async function followGroup(
  kinds: GroupKinds,
  from: GroupSnapshot,
  { beginMilliseconds, captureMilliseconds, signal }: GroupTimes,
): Promise<GroupEnd> {
  let last: GroupSnapshot | undefined = from;
  const until = (group: GroupSnapshot | undefined): boolean => {
    last = group;
    return endOf(group) !== undefined;
  };
  const hasEnded = async (limitMilliseconds: number): Promise<boolean> => {
    const options = { resource: kinds.groups, until, ...defined({ signal }) };
    const ended = await waitBesidesPreparation(kinds.groups.client, limitMilliseconds, (timeoutMilliseconds) =>
      waitUntil({ ...options, from: last ?? from, timeoutMilliseconds })
        .then(() => true)
        .catch(unlessCode("Timeout")),
    );
    return ended ?? false;
  };
  if (!(await hasEnded(beginMilliseconds))) {
    const content = await contentOfGroup(kinds, last);
    if (content === undefined || !isHandled(content))
      return { refused: whyNotBegun(last, beginMilliseconds), ofDriver: true };
    if (!(await hasEnded(Math.max(0, captureMilliseconds - beginMilliseconds))))
      throw late(kind, from, { error: errorOf(last), timeoutMilliseconds: captureMilliseconds });
  }
  const end = endOf(last);
  if (end === undefined || end === "deleted") throw lost(kind, from);
  return end;
}

const kind = "VolumeGroupSnapshot";

function errorOf(group: GroupSnapshot | undefined): string | undefined {
  return printable(group?.status?.error?.message);
}

function endOf(group: GroupSnapshot | undefined): GroupEnd | "deleted" | undefined {
  if (group?.metadata.deletionTimestamp !== undefined || group === undefined) return "deleted";
  if (group.status?.creationTime !== undefined) return { captured: group };
  return groupRefusal(errorOf(group) ?? "");
}

/**
 * Waits until all members of a captured group are captured or ready, verifies that they are of this group, and lets their data be
 * kept when they are deleted.
 * @throws RametError `CheckpointLost` if one is missing, is of another group, or is deleted; as {@link followSnapshot}
 */
export async function keptMembers(
  { client, kinds, name }: { client: KubeClient; kinds: GroupKinds; name: CheckpointName },
  found: FoundGroup,
  wanted: Wanted,
): Promise<CapturedMember[]> {
  const { group, record } = found;
  const content = await contentOfGroup(kinds, group);
  if (content === undefined) throw lost(kind, group, "it has no content that belongs to it");
  const members = await membersOf(client, found);
  const missing = record.volumes.find(({ claim }) => members.every(({ volume }) => volume.claim !== claim));
  if (missing !== undefined) throw lost(kind, group, `it has no member for the claim ${missing.claim}`);
  const followed = members.map(async (member) => {
    const captured = await followSnapshot(client, member.snapshot, wanted);
    const { volumeGroupSnapshotHandle: handle } = captured.content.status ?? {};
    if (handle === undefined || handle !== content.status?.volumeGroupSnapshotHandle)
      throw lost(kind, group, `the VolumeSnapshot ${member.snapshot.metadata.name} is not one of its members`);
    return { ...captured, volume: member.volume };
  });
  const captured = await all(followed);
  await setGroupPolicy(kinds, content, "Retain");
  await Promise.all(captured.map((one) => setDeletionPolicy(client, one.content, "Retain", name)));
  return captured;
}

/**
 * Waits until all members of a checkpoint's groups are ready.
 * @throws RametError `CheckpointLost` for a group that nobody captures; as {@link keptMembers}
 */
export async function readyMembers(
  { groups, ...at }: { client: KubeClient; kinds: GroupKinds; name: CheckpointName; groups: readonly FoundGroup[] },
  wanted: Wanted,
): Promise<CapturedMember[]> {
  const { timeoutMilliseconds, signal } = wanted;
  const times = { beginMilliseconds: timeoutMilliseconds, captureMilliseconds: timeoutMilliseconds, signal };
  const ready = groups.map(async ({ group, record }) => {
    const end = await followGroup(at.kinds, group, times);
    if ("refused" in end) throw lost(kind, group, end.refused);
    return keptMembers(at, { group: end.captured, record }, wanted);
  });
  return (await all(ready)).flat();
}

function whyNotBegun(group: GroupSnapshot | undefined, milliseconds: number): string {
  const error = errorOf(group);
  if (error !== undefined) return error;
  const isBound = group?.status?.boundVolumeGroupSnapshotContentName !== undefined;
  const who = isBound ? "the csi-snapshotter of the driver" : "the snapshot-controller";
  return `${who} did not begin within ${Math.round(milliseconds / 1000)} s`;
}
