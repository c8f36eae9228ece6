import * as z from "zod";
import type { LeaseObject } from "../../kube/lease.ts";
import { type KubeObject, ObjectMeta } from "../../kube/object.ts";
import type { Snapshot, SnapshotClass, SnapshotContent } from "../../kube/volumes/snapshots.ts";
import type { Claim, Volume } from "../../kube/volumes/volumes.ts";
import type { LastEvent } from "./explanation.ts";
import { type EventFacts, lastSeen, type Read, valueOf } from "./facts.ts";
import { recorded } from "./recorded-text.ts";

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
  /** The VolumeSnapshot to which it refers. */
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
  /** The claim that it is a snapshot of. */
  source: Read<Claim>;
  /** The PersistentVolume of that claim. */
  volume: Read<Volume>;
  /** The claims of its namespace. */
  claims: Read<Claim[]>;
}

/** The facts about the content of a snapshot. */
export function contentFactsOf(facts: VolumeSnapshotFacts, content: SnapshotContent): ContentFacts {
  const { now, contentEvents: events, snapshot, classes, controller, sidecar, driver } = facts;
  return { now, content, events, snapshot: { value: snapshot }, classes, controller, sidecar, driver };
}

/** The fields of a StorageClass that a claim's state depends on. */
export const StorageClass = z.looseObject({
  metadata: ObjectMeta,
  provisioner: z.string(),
  volumeBindingMode: z.string().optional(),
});
export type StorageClass = z.infer<typeof StorageClass>;

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
  /** The snapshots of its namespace. */
  snapshots: Read<Snapshot[]>;
}

/** The snapshot in its own namespace that a claim restores. */
export function snapshotRestoredBy({ spec, metadata }: Claim): string | undefined {
  const source = spec.dataSourceRef ?? spec.dataSource;
  if (source?.kind !== "VolumeSnapshot") return undefined;
  return (source.namespace ?? metadata.namespace) === metadata.namespace ? source.name : undefined;
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
