import type { LeaseObject } from "../../kube/lease.ts";
import type { KubeObject } from "../../kube/object.ts";
import {
  type Snapshot,
  type SnapshotClass,
  type SnapshotContent,
  contentAnnotations,
} from "../../kube/volumes/snapshots.ts";
import type { Claim, StorageClass, Volume } from "../../kube/volumes/volumes.ts";
import { blockIn, isBlockedByClass, recorded } from "./csi-texts.ts";
import type { Found, LastEvent } from "./explanation.ts";
import { type EventFacts, type Read, lastSeen, secondsSince, valueOf } from "./facts.ts";

/** The programs that work on snapshots, as far as the API shows them. */
export interface SnapshotPrograms {
  /** The Lease of the snapshot-controller. One without leader election has none. */
  controller: Read<LeaseObject>;
  /** The Lease of csi-snapshotter, the sidecar of the driver. */
  sidecar: Read<LeaseObject>;
  /** The object with which the driver registers. */
  driver: Read<KubeObject>;
}

/** A VolumeSnapshotContent with what its state depends on. */
export interface ContentFacts extends SnapshotPrograms {
  now: Date;
  content: SnapshotContent;
  /** Those of the content, the latest first. */
  events: Read<EventFacts[]>;
  snapshot: Read<Snapshot>;
  classes: Read<SnapshotClass[]>;
}

/** A VolumeSnapshot with what its state depends on. */
export interface VolumeSnapshotFacts extends SnapshotPrograms {
  now: Date;
  snapshot: Snapshot;
  /** Those of the snapshot, the latest first. */
  events: Read<EventFacts[]>;
  /** The content that it is bound to or names, or that the snapshot-controller creates for it. */
  content: Read<SnapshotContent>;
  contentEvents: Read<EventFacts[]>;
  classes: Read<SnapshotClass[]>;
  source: Read<Claim>;
  volume: Read<Volume>;
  claims: Read<Claim[]>;
}

export function contentFactsOf(facts: VolumeSnapshotFacts, content: SnapshotContent): ContentFacts {
  return { ...facts, content, events: facts.contentEvents, snapshot: { value: facts.snapshot } };
}

/** A PersistentVolumeClaim with what its state depends on. */
export interface ClaimFacts {
  now: Date;
  claim: Claim;
  /** Those of the claim, the latest first. */
  events: Read<EventFacts[]>;
  storageClass: Read<StorageClass>;
  /** Why the snapshot that it restores is in its state; undefined if it restores none. */
  restored: VolumeSnapshotFacts | undefined;
  /** The name of the snapshot that it restores. */
  restoredName: string | undefined;
  snapshots: Read<Snapshot[]>;
}

/** Whether a claim names this snapshot, in whichever of the two fields. The claim can be in another namespace (KEP-3294, alpha). */
export function restores({ metadata, spec }: Claim, { namespace, name }: { namespace: string; name: string }): boolean {
  return [spec.dataSource, spec.dataSourceRef].some(
    (source) =>
      source?.kind === "VolumeSnapshot" &&
      source.name === name &&
      (source.namespace ?? metadata.namespace) === namespace,
  );
}

/** Whether a volume may be in the making for this claim. */
export function isProvisioning({ status }: Claim): boolean {
  return status?.phase === undefined || status.phase === "Pending";
}

/** Whether a content refers to this snapshot, and not to another one of the same name. */
export function refersTo({ spec }: SnapshotContent, { metadata }: Snapshot): boolean {
  const { name, namespace, uid } = spec.volumeSnapshotRef;
  return name === metadata.name && namespace === metadata.namespace && uid === metadata.uid;
}

export function hasFinalizer({ metadata }: KubeObject, finalizer: string): boolean {
  return metadata.finalizers?.includes(finalizer) === true;
}

export function hasAnnotation({ metadata }: KubeObject, annotation: string): boolean {
  return metadata.annotations?.[annotation] !== undefined;
}

export function lastEventOf(read: Read<EventFacts[]>): LastEvent | undefined {
  const event = valueOf(read)?.[0];
  if (event === undefined) return undefined;
  return { reason: recorded(event.reason), message: recorded(event.note), at: lastSeen(event) };
}

/** The object as arguments of kubectl: `a -n team-a`. */
export function at({ metadata: { name, namespace } }: KubeObject): string {
  return namespace === undefined ? name : `${name} -n ${namespace}`;
}

/** The phase of an object that is being deleted: blocked, if that takes longer than the controllers need. */
export function phaseOfDeletion(since: string, now: Date): "Deleting" | "DeleteBlocked" {
  return isLate(since, now) ? "DeleteBlocked" : "Deleting";
}

export function isLate(since: string | undefined, now: Date): boolean {
  return secondsSince(since, now) > deletionSeconds;
}

const deletionSeconds = 60;

/** For a deletion that no rule explains. */
export const beingDeleted: Found = { state: "waiting", reason: "Terminating", cause: "It is being deleted" };

/** Recognizes an object whose deletion waits for the controller of this finalizer. */
export function heldBy(finalizer: string | undefined): Found | undefined {
  if (finalizer === undefined) return undefined;
  return {
    reason: "Terminating",
    cause: `Its deletion waits for the finalizer ${recorded(finalizer)}`,
    retry: "The controller of the finalizer removes it when it has cleaned up",
    action: `Start the controller of ${recorded(finalizer)}`,
  };
}

/** When the snapshot-controller or the sidecar tries again (external-snapshotter v8.7: 1 s, doubled up to 5 minutes). */
export function retriedBy(who: string, now: Date): string {
  return `${who} tries again after growing pauses of at most 5 minutes: by ${instant(now, 5)}`;
}

/** When every object is processed again, whatever happened. */
export function resyncedBy(now: Date): string {
  return `The snapshot-controller compares them again within 15 minutes: by ${instant(now, 15)}`;
}

function instant(now: Date, afterMinutes: number): string {
  return `${new Date(now.getTime() + afterMinutes * 60_000).toISOString().slice(0, 19)}Z`;
}

/** The command that makes a controller process an object immediately: any change does. */
export function touch(resource: string, object: KubeObject): string {
  return `kubectl annotate ${resource} ${at(object)} --overwrite ramet.dev/retry=$(date +%s)`;
}

/** Describes the snapshot-controller as the API shows it, as the end of a sentence. */
export function controllerSign({ controller, now }: SnapshotPrograms & { now: Date }): string {
  return leaseSign(controller, "snapshot-controller-leader", now);
}

/** Describes the driver and its sidecar as the API shows them, as the end of a sentence. */
export function sidecarSign({ driver, sidecar, content, now }: ContentFacts): string {
  const name = content.spec.driver;
  const isMissing = "value" in driver && driver.value === undefined;
  return `${isMissing ? `; the cluster has no CSIDriver ${name}` : ""}${leaseSign(sidecar, sidecarLease(name), now)}`;
}

/** csi-lib-utils makes a name of a driver's name in this way. */
export function sidecarLease(driverName: string): string {
  return `external-snapshotter-leader-${driverName.replaceAll(/[^a-zA-Z0-9-]/g, "-")}`;
}

function leaseSign(read: Read<LeaseObject>, name: string, now: Date): string {
  if ("unknown" in read) return "";
  const spec = valueOf(read)?.spec;
  if (spec === undefined) return `; no process has the Lease ${name}`;
  const { holderIdentity, renewTime, leaseDurationSeconds } = spec;
  if (holderIdentity == null || holderIdentity === "") return `; the Lease ${name} is released`;
  const seconds = Math.max(0, Math.round(secondsSince(renewTime ?? undefined, now)));
  return seconds > (leaseDurationSeconds ?? 15)
    ? `; ${holderIdentity} has not renewed the Lease ${name} for ${seconds} s`
    : `, although ${holderIdentity} renewed the Lease ${name} ${seconds} s ago`;
}

/** A VolumeSnapshot has no phase in its status. This is the one that its objects amount to. */
type VolumePhase =
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
