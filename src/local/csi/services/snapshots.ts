import { defined } from "../../../base/defined.ts";
import { RametError } from "../../../base/errors.ts";
import { pageOf, type RequestOf, requests } from "../requests.ts";
import { idOf, type SnapshotRecord } from "../storage/records.ts";
import { type Method, method } from "../unary.ts";
import { checkParameters, type ControllerOptions } from "./volumes.ts";

/** The methods of the Controller service for snapshots. */
export function snapshotMethods({ storage, clock }: ControllerOptions): Record<string, Method> {
  const { volumes, snapshots, operations } = storage;

  const create = async ({ name, sourceVolumeId, parameters }: RequestOf<"createSnapshot">): Promise<object> => {
    checkParameters(parameters, "VolumeSnapshotClass");
    const id = idOf("snapshot", name);
    return operations.run({ changes: id, reads: sourceVolumeId }, async () => {
      const existing = await snapshots.find(id);
      if (existing !== undefined) {
        if (existing.volumeId === sourceVolumeId) return { snapshot: viewOfSnapshot(existing) };
        throw new RametError("AlreadyExists", `A snapshot with this name exists: it is of ${existing.volumeId}`);
      }
      const { capacityBytes: sizeBytes, id: volumeId } = await volumes.get(sourceVolumeId);
      const createdAt = clock.now().toISOString();
      const snapshot: SnapshotRecord = { format: 1, id, name, createdAt, sizeBytes, volumeId };
      await snapshots.create(snapshot, (data) => storage.copy(volumes.dataOf(volumeId), data));
      return { snapshot: viewOfSnapshot(snapshot) };
    });
  };

  const list = async ({ snapshotId, sourceVolumeId, ...page }: RequestOf<"listSnapshots">): Promise<object> => {
    const found = snapshotId === "" ? await snapshots.list() : [await snapshots.find(snapshotId)];
    const matching = found
      .filter((snapshot) => snapshot !== undefined)
      .filter(({ volumeId }) => sourceVolumeId === "" || volumeId === sourceVolumeId);
    const { page: entries, nextToken } = pageOf(matching, page);
    return { entries: entries.map((snapshot) => ({ snapshot: viewOfSnapshot(snapshot) })), nextToken };
  };

  return {
    CreateSnapshot: method(requests.createSnapshot, create),
    DeleteSnapshot: method(requests.snapshot, async ({ snapshotId }) => {
      await operations.run({ changes: snapshotId }, async () => {
        const groupId = (await snapshots.find(snapshotId))?.groupId;
        if (groupId !== undefined)
          throw new RametError("InvalidArgument", `The snapshot ${snapshotId} is a member of the group ${groupId}`, {
            hint: "Delete the group",
          });
        await snapshots.remove(snapshotId);
      });
      return {};
    }),
    ListSnapshots: method(requests.listSnapshots, list),
    GetSnapshot: method(requests.snapshot, async ({ snapshotId }) => ({
      snapshot: viewOfSnapshot(await snapshots.get(snapshotId)),
    })),
  };
}

/** A snapshot as CSI describes it. */
export function viewOfSnapshot({ id, volumeId, sizeBytes, createdAt, groupId }: SnapshotRecord): object {
  return {
    snapshotId: id,
    sourceVolumeId: volumeId,
    sizeBytes,
    creationTime: timestamp(createdAt),
    readyToUse: true,
    ...defined({ groupSnapshotId: groupId }),
  };
}

/** @param time as RFC 3339 */
export function timestamp(time: string): { seconds: number; nanos: number } {
  const milliseconds = Date.parse(time);
  const seconds = Math.floor(milliseconds / 1000);
  return { seconds, nanos: (milliseconds - seconds * 1000) * 1_000_000 };
}
