import { defined } from "../../../base/defined.ts";
import { RametError, unlessCode } from "../../../base/errors.ts";
import type { KubeClient } from "../../../kube/kube-client.ts";
import { type GroupKinds, type GroupSnapshot, groupKindsOf } from "../../../kube/volumes/snapshots.ts";
import type { CheckpointName } from "../../backend.ts";
import { type CapturableVolume, groupNoteOf } from "../captured-volume.ts";
import { snapshotsOf } from "../remove-snapshots.ts";
import { groupClass } from "../snapshot-class.ts";
import {
  type FoundGroup,
  type VolumeGroup,
  groupManifest,
  groupName,
  groupRecord,
  groupsOf,
  labelClaims,
  unlabelClaims,
} from "./find-groups.ts";
import { type CapturedMember, type GroupTimes, followGroup, keptMembers } from "./follow-group.ts";
import { removeGroup } from "./remove-group.ts";

export interface CaptureGroupsOptions extends GroupTimes {
  client: KubeClient;
  name: CheckpointName;
  volumes: readonly CapturableVolume[];
  /** Gets the groups that did not exist, by UID. */
  created: Map<string, GroupSnapshot>;
  /** The drivers whose groups nobody captures. */
  refusals: Refusals;
}

export interface CapturedGroups {
  captured: CapturedMember[];
  /** The volumes that are to be captured one by one. */
  left: readonly CapturableVolume[];
  /** Why volumes of one driver are among these. */
  note?: string;
}

/**
 * Captures the volumes that share a driver with others in one VolumeGroupSnapshot for each driver, as far as the cluster and the
 * driver can do that.
 * @throws RametError as {@link followGroup}; `AlreadyExists` for a group of somebody else
 */
export async function captureGroups(options: CaptureGroupsOptions): Promise<CapturedGroups> {
  const { client, name, volumes } = options;
  const shared = groupsByDriver(volumes);
  if (shared.length === 0) return oneByOne(volumes);
  // A volume that an earlier attempt has begun to capture alone has another moment than a group.
  const begun = await snapshotsOf(client, name);
  if (begun.length > 0) return oneByOne(volumes, begun.map(groupNoteOf).find(Boolean));
  const kinds = await kindsFor(client);
  if (typeof kinds === "string") return oneByOne(volumes, kinds);
  const captured: CapturedMember[] = [];
  const notes: string[] = [];
  for (const group of shared) {
    const end = await captureGroup(kinds, group, options);
    if (typeof end === "string") notes.push(`${group.driver}: ${end}`);
    else captured.push(...end);
  }
  await unlabelClaims(client, name);
  const grouped = new Set(captured.map(({ volume }) => volume.claim));
  const left = volumes.filter(({ claim }) => !grouped.has(claim));
  return { captured, left, ...(notes.length > 0 && { note: notes.join("; ") }) };
}

function oneByOne(left: readonly CapturableVolume[], note?: string): CapturedGroups {
  return { captured: [], left, ...defined({ note }) };
}

/** Drivers whose groups nobody has captured lately: a checkpoint does not wait for them again. */
export class Refusals {
  readonly #client: Pick<KubeClient, "clock">;
  readonly #byDriver = new Map<string, { why: string; until: number }>();

  constructor(client: Pick<KubeClient, "clock">) {
    this.#client = client;
  }

  find(driver: string): string | undefined {
    const found = this.#byDriver.get(driver);
    return found !== undefined && found.until > this.#client.clock.now().getTime() ? found.why : undefined;
  }

  add(driver: string, why: string): void {
    this.#byDriver.set(driver, { why, until: this.#client.clock.now().getTime() + refusalMilliseconds });
  }
}

/** Somebody may install the missing program meanwhile. */
const refusalMilliseconds = 600_000;

function groupsByDriver(volumes: readonly CapturableVolume[]): VolumeGroup[] {
  const byDriver = Map.groupBy(volumes, ({ driver }) => driver);
  return [...byDriver]
    .filter(([, ofDriver]) => ofDriver.length > 1)
    .map(([driver, ofDriver]) => ({ driver, volumes: ofDriver, ofVolumes: volumes.length }));
}

/** @returns the kinds of groups, or why they cannot be used */
async function kindsFor(client: KubeClient): Promise<GroupKinds | string> {
  try {
    return (await groupKindsOf(client)) ?? "the cluster has no VolumeGroupSnapshots";
  } catch (thrown) {
    const error = RametError.from(thrown);
    if (error.code !== "Forbidden") throw error;
    return error.message;
  }
}

/** @returns the captured members, or why nobody captures the group */
async function captureGroup(
  kinds: GroupKinds,
  group: VolumeGroup,
  options: CaptureGroupsOptions,
): Promise<CapturedMember[] | string> {
  const { client, name, captureMilliseconds: timeoutMilliseconds, signal, refusals } = options;
  const found = await createGroup(kinds, group, options);
  if (typeof found === "string") return found;
  const end = await followGroup(kinds, found.group, options);
  if ("refused" in end) {
    if (end.ofDriver) refusals.add(group.driver, end.refused);
    await abandon(client, kinds, found.group);
    return end.refused;
  }
  const wanted = { state: "captured", timeoutMilliseconds, signal } as const;
  return keptMembers({ client, kinds, name }, { ...found, group: end.captured }, wanted);
}

/** @returns the group that exists or was created, or why none can be */
async function createGroup(
  kinds: GroupKinds,
  group: VolumeGroup,
  { client, name, created, refusals }: CaptureGroupsOptions,
): Promise<FoundGroup | string> {
  const at = { namespace: name.namespace, name: groupName(name, group.driver) };
  const existing = await kinds.groups.find(at);
  if (existing !== undefined) return usable(name, existing);
  const known = refusals.find(group.driver);
  if (known !== undefined) return known;
  const chosen = groupClass(group.driver, kinds.listedClasses);
  if ("problem" in chosen) return chosen.problem;
  await labelClaims(client, name, group);
  const manifest = groupManifest(name, { ...group, apiVersion: kinds.apiVersion, className: chosen.name });
  const made = await kinds.groups.create(manifest).catch(unlessCode("AlreadyExists"));
  // A response that was lost: the request was repeated.
  if (made === undefined) return usable(name, await kinds.groups.get(at));
  created.set(made.metadata.uid, made);
  return usable(name, made);
}

/** @returns the group, or why it cannot be captured. @throws RametError `AlreadyExists` */
function usable(name: CheckpointName, group: GroupSnapshot): FoundGroup | string {
  const { metadata } = group;
  const record = groupRecord(name, group);
  if (record === undefined)
    throw new RametError(
      "AlreadyExists",
      `The VolumeGroupSnapshot ${metadata.name} exists and is not of this checkpoint`,
      { hint: "Delete it, then create another Checkpoint" },
    );
  if (metadata.deletionTimestamp === undefined) return { group, record };
  return `the VolumeGroupSnapshot ${metadata.name} of an earlier attempt is still being deleted`;
}

/** Removes a group that nobody captures. A longer removal continues without this process, or is removed with the Checkpoint. */
async function abandon(client: KubeClient, kinds: GroupKinds, group: GroupSnapshot): Promise<void> {
  await removeGroup(client, kinds, group).catch((thrown: unknown) => {
    const error = RametError.from(thrown);
    if (!error.retryable) throw error;
  });
}

/** Removes the groups of a failed capture that it created, or that are not captured, and the labels of their claims. */
export async function discardGroups(
  client: KubeClient,
  name: CheckpointName,
  created: ReadonlyMap<string, GroupSnapshot>,
): Promise<void> {
  const kinds = await groupKindsOf(client);
  if (kinds === undefined) return;
  const unneeded = new Map(created);
  for (const { group } of await groupsOf(kinds, name))
    if (group.status?.creationTime === undefined) unneeded.set(group.metadata.uid, group);
  await Promise.allSettled([...unneeded.values()].map((one) => removeGroup(client, kinds, one)));
  await unlabelClaims(client, name);
}
