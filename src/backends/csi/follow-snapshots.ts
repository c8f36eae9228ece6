// Text of external-snapshotter and of CSI drivers is parsed only here.
import { defined } from "../../base/defined.ts";
import { RametError, unlessCode } from "../../base/errors.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import type { KubeObject } from "../../kube/object.ts";
import { type Snapshot, type SnapshotContent, snapshotContentsIn, snapshotsIn } from "../../kube/volumes/snapshots.ts";
import { readPreparation, waitBesidesPreparation } from "../../kube/volumes/preparation.ts";
import { waitUntil } from "../../kube/wait-until.ts";

/** A VolumeSnapshot whose data is fixed. */
export interface CapturedSnapshot {
  snapshot: Snapshot;
  content: SnapshotContent;
  /** When its data was captured, as RFC 3339. */
  capturedAt: string;
  isReady: boolean;
}

export interface Wanted {
  /** `captured`: the data is fixed, and the source may change it. `ready`: it can be restored too. */
  state: "captured" | "ready";
  timeoutMilliseconds: number;
  signal?: AbortSignal | undefined;
}

/** A change that no watch reports, such as the end of an interrupted one, is seen after this time at the latest. */
const requeueMilliseconds = 30_000;

/**
 * Waits until a VolumeSnapshot is captured or ready, and verifies its content. An error of the driver is no end: the
 * snapshot-controller repeats what failed, up to every five minutes.
 * @throws RametError `CheckpointLost` if it is deleted; `VolumeNotCaptured` if it is blocked, or with the last error of the driver
 *   after the timeout
 */
export async function followSnapshot(
  client: KubeClient,
  from: Snapshot,
  { state: wanted, timeoutMilliseconds, signal }: Wanted,
): Promise<CapturedSnapshot> {
  let last: SnapshotState = stateOfSnapshot(from);
  const isEnd = (snapshot: Snapshot | undefined): boolean => {
    last = snapshot === undefined ? { state: "deleted" } : stateOfSnapshot(snapshot);
    if (last.state === "ready" || last.state === wanted) return true;
    return last.state === "blocked" || last.state === "deleted";
  };
  const resource = snapshotsIn(client);
  const limits = { requeueAfterMilliseconds: requeueMilliseconds, ...defined({ signal }) };
  const found = await waitBesidesPreparation(client, timeoutMilliseconds, (milliseconds) =>
    waitUntil({ resource, from, until: isEnd, timeoutMilliseconds: milliseconds, ...limits })
      .then((snapshot) => ({ snapshot }))
      .catch(unlessCode("Timeout")),
  );
  // `last` was changed by the callback.
  const end = last;
  if (found === undefined) {
    const error = "error" in end ? end.error : (await readPreparation(client))?.failure;
    throw late(kind, from, { error, timeoutMilliseconds });
  }
  if (end.state === "blocked") throw notCaptured(kind, from, end.error);
  if (found.snapshot === undefined || !("capturedAt" in end)) throw lost(kind, from);
  return verified(client, found.snapshot, end);
}

/** @throws RametError `CheckpointLost` if the content is missing or belongs to another VolumeSnapshot */
async function verified(
  client: KubeClient,
  snapshot: Snapshot,
  { state, capturedAt, contentName }: Extract<SnapshotState, { capturedAt: string }>,
): Promise<CapturedSnapshot> {
  const content = await snapshotContentsIn(client).find({ name: contentName });
  if (content === undefined || !isBound(snapshot, content) || content.status?.snapshotHandle === undefined)
    throw lost(kind, snapshot, `its VolumeSnapshotContent ${contentName} does not belong to it, or has no data`);
  const { creationTime } = content.status;
  const exactly = creationTime === undefined ? capturedAt : new Date(creationTime / 1_000_000).toISOString();
  return { snapshot, content, capturedAt: exactly, isReady: state === "ready" };
}

const kind = "VolumeSnapshot";
type SnapshotKind = typeof kind | "VolumeGroupSnapshot";

/** @param last the last error of the driver */
export function late(
  kind: SnapshotKind,
  snapshot: KubeObject,
  last: { error: string | undefined; timeoutMilliseconds: number },
): RametError {
  const seconds = Math.round(last.timeoutMilliseconds / 1000);
  return notCaptured(kind, snapshot, `it was not taken within ${seconds} s; ${last.error ?? "no error was reported"}`);
}

/** The snapshot is deleted with its failed checkpoint, so the hint does not name it. */
function notCaptured(kind: SnapshotKind, { metadata: { name } }: KubeObject, why: string): RametError {
  return new RametError("VolumeNotCaptured", `The ${kind} ${name} cannot be taken: ${why}`, {
    hint: "Check the snapshot-controller and the CSI driver with: ramet doctor; on a local cluster also: ramet local status",
  });
}

export function lost(kind: SnapshotKind, { metadata: { name } }: KubeObject, why = "it was deleted"): RametError {
  return new RametError("CheckpointLost", `The ${kind} ${name} has no data: ${why}`, {
    hint: "Delete the Checkpoint, and create another one",
  });
}

/** Waits for all, so that nothing continues after an error. @throws the first error */
export async function all<T>(promises: readonly Promise<T>[]): Promise<T[]> {
  await Promise.allSettled(promises);
  return Promise.all(promises);
}

/** How far a VolumeSnapshot is. The data is fixed when it is `captured`, and can be restored when it is `ready`. */
type SnapshotState =
  /** With the last error of the driver or the controller, which repeat what failed. */
  | { state: "pending"; error?: string }
  /** It cannot succeed without a change of the cluster or of the claim. */
  | { state: "blocked"; error: string }
  | { state: "captured" | "ready"; capturedAt: string; contentName: string }
  | { state: "deleted" };

/** The longest part of a driver's message that Ramet repeats. */
const mostCharacters = 500;

/** Texts of the snapshot-controller (pkg/common-controller of external-snapshotter) for what a retry alone does not mend. */
const blocking = [
  "cannot find default snapshot class",
  "default snapshot classes were found",
  "failed to get snapshot class",
  "because it is being deleted",
  "cannot find CSI PersistentVolumeSource",
];

/** As the sidecar reports that the driver has no groups, or cannot capture these volumes together (csi.proto). */
const unsupported = "code = Unimplemented";
const notTogether = "code = FailedPrecondition";

/**
 * Why nobody can capture a group, from the error of its sidecar; undefined for an error after which the sidecar repeats the request.
 * `ofDriver`: other groups of the driver would end in the same way.
 */
export function groupRefusal(message: string): { refused: string; ofDriver: boolean } | undefined {
  const ofDriver = message.includes(unsupported);
  return ofDriver || message.includes(notTogether) ? { refused: message, ofDriver } : undefined;
}

/** The state of a VolumeSnapshot from its status. The content decides what is used, see {@link isBound}. */
export function stateOfSnapshot({ metadata, status }: Snapshot): SnapshotState {
  if (metadata.deletionTimestamp !== undefined) return { state: "deleted" };
  const { creationTime: capturedAt, boundVolumeSnapshotContentName: contentName, readyToUse } = status ?? {};
  if (capturedAt !== undefined && contentName !== undefined && contentName !== "")
    return { state: readyToUse === true ? "ready" : "captured", capturedAt, contentName };
  const error = printable(status?.error?.message);
  if (error === undefined) return { state: "pending" };
  return { state: blocking.some((text) => error.includes(text)) ? "blocked" : "pending", error };
}

/** A driver's message: text of somebody else, as one short line. */
export function printable(message: string | undefined): string | undefined {
  return message?.replace(/[^\x20-\x7e]+/g, " ").slice(0, mostCharacters);
}

/**
 * Whether a content belongs to a VolumeSnapshot. Both sides must name each other: a user who can create a VolumeSnapshot could name the
 * content of another namespace.
 */
export function isBound({ metadata, status }: Snapshot, content: SnapshotContent): boolean {
  const { namespace, name, uid } = content.spec.volumeSnapshotRef;
  const isOurs = namespace === metadata.namespace && name === metadata.name && uid === metadata.uid;
  return isOurs && status?.boundVolumeSnapshotContentName === content.metadata.name;
}
