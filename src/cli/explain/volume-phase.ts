import { type Snapshot, type SnapshotContent, contentAnnotations } from "../../kube/volumes/snapshots.ts";
import { isBlockedByClass, isBlockedBySource } from "./snapshot-block.ts";
import { type EventFacts, type Read, valueOf } from "./facts.ts";
import { secondsSince } from "./time.ts";
import { hasAnnotation, refersTo } from "./volume-facts.ts";

/** A VolumeSnapshot has no phase in its status. This is the one that its objects amount to. */
export type VolumePhase =
  | "Pending"
  | "BlockedByClass"
  | "BlockedBySource"
  | "Creating"
  | "Cut"
  | "Ready"
  | "Failing"
  | "Deleting"
  | "DeleteBlocked";

interface Seen {
  now: Date;
  snapshot: Snapshot;
  content: Read<SnapshotContent>;
  events: Read<EventFacts[]>;
}

/** The phase of a VolumeSnapshot. Pure. */
export function phaseOfSnapshot({ now, snapshot, content, events }: Seen): VolumePhase {
  const { metadata, status } = snapshot;
  if (metadata.deletionTimestamp !== undefined) return phaseOfDeletion(metadata.deletionTimestamp, events, now);
  if (isReady(snapshot, content)) return "Ready";
  const message = status?.error?.message ?? "";
  if (isBlockedByClass(message)) return "BlockedByClass";
  if (isBlockedBySource(message)) return "BlockedBySource";
  return phaseByContent(snapshot, content) ?? phaseByStatus(snapshot);
}

function phaseOfDeletion(since: string, events: Read<EventFacts[]>, now: Date): VolumePhase {
  const isPending = (valueOf(events) ?? []).some(({ reason }) => reason === "SnapshotDeletePending");
  return isPending || isLate(since, now) ? "DeleteBlocked" : "Deleting";
}

function phaseByContent(snapshot: Snapshot, read: Read<SnapshotContent>): VolumePhase | undefined {
  const content = valueOf(read);
  if (content === undefined || !refersTo(content, snapshot)) return undefined;
  const phase = phaseOfLivingContent(content);
  return phase === "Pending" ? undefined : phase;
}

function phaseByStatus({ status }: Snapshot): VolumePhase {
  if (status?.error !== undefined) return "Failing";
  return status?.creationTime === undefined ? "Pending" : "Cut";
}

/** The phase of a VolumeSnapshotContent. Pure. */
export function phaseOfContent(content: SnapshotContent, now: Date): VolumePhase {
  const { deletionTimestamp } = content.metadata;
  if (deletionTimestamp === undefined) return phaseOfLivingContent(content);
  return isLate(deletionTimestamp, now) ? "DeleteBlocked" : "Deleting";
}

function phaseOfLivingContent(content: SnapshotContent): VolumePhase {
  const { status } = content;
  if (status?.readyToUse === true) return "Ready";
  // An error stays until the snapshot is ready, so it may be older than the handle.
  if (status?.snapshotHandle !== undefined) return "Cut";
  if (status?.error !== undefined) return "Failing";
  return hasAnnotation(content, contentAnnotations.beingCreated) ? "Creating" : "Pending";
}

/** Ready on both sides, which refer to each other. If the content cannot be read, the snapshot's side counts. */
function isReady(snapshot: Snapshot, read: Read<SnapshotContent>): boolean {
  if (snapshot.status?.readyToUse !== true) return false;
  if ("unknown" in read) return true;
  const content = read.value;
  return content !== undefined && refersTo(content, snapshot) && content.status?.readyToUse === true;
}

/** Whether a deletion takes longer than the controllers need if nothing holds it. */
export function isLate(since: string, now: Date): boolean {
  return secondsSince(since, now) > deletionSeconds;
}

const deletionSeconds = 60;
