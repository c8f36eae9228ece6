import { contentAnnotations, type Snapshot, type SnapshotContent } from "../../kube/volumes/snapshots.ts";
import { blockIn, isBlockedByClass } from "./csi-texts.ts";
import { type Read, valueOf } from "./facts.ts";
import { hasAnnotation, phaseOfDeletion, refersTo, type VolumeSnapshotFacts } from "./volume-facts.ts";

/** A VolumeSnapshot has no phase in its status. This is the one that its objects amount to. */
export type VolumePhase =
  | "Pending"
  | "BlockedByClass"
  | "BlockedBySource"
  | "Creating"
  | "Cut"
  | "Ready"
  | "Failing"
  | ReturnType<typeof phaseOfDeletion>;

export function phaseOfSnapshot({ now, snapshot, content, events }: VolumeSnapshotFacts): VolumePhase {
  const { metadata, status } = snapshot;
  if (metadata.deletionTimestamp !== undefined) {
    const isPending = (valueOf(events) ?? []).some(({ reason }) => reason === "SnapshotDeletePending");
    return isPending ? "DeleteBlocked" : phaseOfDeletion(metadata.deletionTimestamp, now);
  }
  if (isReady(snapshot, content)) return "Ready";
  const message = status?.error?.message ?? "";
  if (blockIn(message) !== undefined) return isBlockedByClass(message) ? "BlockedByClass" : "BlockedBySource";
  const ofContent = phaseByContent(snapshot, valueOf(content));
  return ofContent === "Pending" ? phaseByStatus(status) : ofContent;
}

function phaseByContent(snapshot: Snapshot, content: SnapshotContent | undefined): VolumePhase {
  return content !== undefined && refersTo(content, snapshot) ? phaseOfLivingContent(content) : "Pending";
}

/** Ready on both sides, which refer to each other. If the content cannot be read, the snapshot's side counts. */
function isReady(snapshot: Snapshot, read: Read<SnapshotContent>): boolean {
  if (snapshot.status?.readyToUse !== true) return false;
  if ("unknown" in read) return true;
  const content = read.value;
  return content !== undefined && refersTo(content, snapshot) && content.status?.readyToUse === true;
}

/** The phase of an object with this status, as far as it says. */
export function phaseByStatus(status: { error?: object | undefined; creationTime?: unknown } | undefined): VolumePhase {
  if (status?.error !== undefined) return "Failing";
  return status?.creationTime === undefined ? "Pending" : "Cut";
}

export function phaseOfContent(content: SnapshotContent, now: Date): VolumePhase {
  const { deletionTimestamp } = content.metadata;
  return deletionTimestamp === undefined ? phaseOfLivingContent(content) : phaseOfDeletion(deletionTimestamp, now);
}

function phaseOfLivingContent(content: SnapshotContent): VolumePhase {
  const { status } = content;
  if (status?.readyToUse === true) return "Ready";
  // An error stays until the snapshot is ready, so it may be older than the handle.
  if (status?.snapshotHandle !== undefined) return "Cut";
  if (status?.error !== undefined) return "Failing";
  return hasAnnotation(content, contentAnnotations.beingCreated) ? "Creating" : "Pending";
}
