import type { Snapshot, SnapshotContent } from "../../kube/volumes/snapshots.ts";

/** How far a VolumeSnapshot is. The data is fixed when it is `captured`, and can be restored when it is `ready`. */
export type SnapshotState =
  | {
      state: "pending";
      /** The last error of the driver or the controller, which repeat what failed. */ error?: string;
    }
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
