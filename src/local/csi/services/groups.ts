import type { Clock } from "../../../base/clock.ts";
import { RametError } from "../../../base/errors.ts";
import { type RequestOf, requests } from "../requests.ts";
import { idOf, type GroupRecord, type SnapshotRecord, type VolumeRecord } from "../storage/records.ts";
import type { Storage } from "../storage/storage.ts";
import { type Method, method } from "../unary.ts";
import { timestamp, viewOfSnapshot } from "./snapshots.ts";
import { checkParameters } from "./volumes.ts";

/**
 * The GroupController service: snapshots of several volumes that exist all or not at all. The driver cannot stop programs that write
 * to the volumes, and copies one volume beside the other. The copies are of one moment only if nothing changes the volumes meanwhile.
 */
export function groupControllerService(storage: Storage, clock: Clock): Record<string, Method> {
  const { groups, operations } = storage;

  const create = async ({ name, parameters, ...given }: RequestOf<"createGroup">): Promise<object> => {
    checkParameters(parameters, "VolumeGroupSnapshotClass");
    const id = idOf("group", name);
    const volumeIds = [...new Set(given.sourceVolumeIds)].sort();
    return operations.run({ changes: id, reads: volumeIds }, async () => {
      const existing = await groups.find(id);
      if (existing !== undefined && String(existing.volumeIds) !== String(volumeIds))
        throw new RametError(
          "AlreadyExists",
          `A group with this name exists: it is of ${existing.volumeIds.join(", ")}`,
        );
      if (existing !== undefined) return viewOf(existing, await membersOf(storage, existing));
      const group: GroupRecord = { format: 1, id, name, createdAt: clock.now().toISOString(), volumeIds };
      return viewOf(group, await createGroup(storage, group));
    });
  };

  const remove = async ({ groupSnapshotId, snapshotIds }: RequestOf<"group">): Promise<object> => {
    await operations.run({ changes: groupSnapshotId }, async () => {
      const group = await groups.find(groupSnapshotId);
      if (group === undefined) return;
      checkMembers(group, snapshotIds);
      for (const id of memberIds(group)) await operations.run({ changes: id }, () => storage.snapshots.remove(id));
      await groups.remove(groupSnapshotId);
    });
    return {};
  };

  const get = async ({ groupSnapshotId, snapshotIds }: RequestOf<"group">): Promise<object> => {
    const group = await groups.get(groupSnapshotId);
    checkMembers(group, snapshotIds);
    return viewOf(group, await membersOf(storage, group));
  };

  return {
    GroupControllerGetCapabilities: method(requests.empty, () => ({
      capabilities: [{ rpc: { type: "CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT" } }],
    })),
    CreateVolumeGroupSnapshot: method(requests.createGroup, create),
    DeleteVolumeGroupSnapshot: method(requests.group, remove),
    GetVolumeGroupSnapshot: method(requests.group, get),
  };
}

/** Copies all volumes, and then records the group. If one copy fails, none remains. */
async function createGroup(storage: Storage, group: GroupRecord): Promise<SnapshotRecord[]> {
  const { volumes, snapshots, groups } = storage;
  const sources = await Promise.all(group.volumeIds.map((id) => volumes.get(id)));
  const members = sources.map((volume) => memberOf(group, volume));
  // A copy of an earlier attempt has another moment.
  for (const { id } of members) await snapshots.remove(id);
  const copies = members.map((one) =>
    snapshots.create(one, (data) => storage.copy(volumes.dataOf(one.volumeId), data)),
  );
  await Promise.allSettled(copies);
  try {
    await Promise.all(copies);
    await groups.create(group, () => Promise.resolve());
  } catch (error) {
    // The next start of the driver removes what cannot be removed now.
    await Promise.allSettled(members.map(({ id }) => snapshots.remove(id)));
    throw error;
  }
  return members;
}

function memberOf(group: GroupRecord, { id: volumeId, capacityBytes }: VolumeRecord): SnapshotRecord {
  const { createdAt, id: groupId } = group;
  const name = `${group.name} ${volumeId}`;
  return { format: 1, id: idOf("snapshot", name), name, createdAt, sizeBytes: capacityBytes, volumeId, groupId };
}

function memberIds({ name, volumeIds }: GroupRecord): string[] {
  return volumeIds.map((volumeId) => idOf("snapshot", `${name} ${volumeId}`));
}

/** @throws RametError `NotFound` for a group whose removal was interrupted */
function membersOf({ snapshots }: Storage, group: GroupRecord): Promise<SnapshotRecord[]> {
  return Promise.all(
    memberIds(group).map(async (id) => {
      const member = await snapshots.find(id);
      if (member !== undefined) return member;
      throw new RametError("NotFound", `The group ${group.id} has lost its snapshot ${id}`, {
        hint: "Delete the group",
      });
    }),
  );
}

/** @param given what the caller takes for the members; empty if it does not know them. @throws RametError `InvalidArgument` */
function checkMembers(group: GroupRecord, given: readonly string[]): void {
  const members = memberIds(group);
  const other = given.find((id) => !members.includes(id));
  if (other === undefined && (given.length === 0 || given.length === members.length)) return;
  throw new RametError(
    "InvalidArgument",
    `The group ${group.id} has the snapshots ${members.join(", ")}, not ${given.join(", ")}`,
  );
}

function viewOf({ id, createdAt }: GroupRecord, members: readonly SnapshotRecord[]): object {
  return {
    groupSnapshot: {
      groupSnapshotId: id,
      snapshots: members.map(viewOfSnapshot),
      creationTime: timestamp(createdAt),
      readyToUse: true,
    },
  };
}
