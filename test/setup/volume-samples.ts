import { expect } from "vitest";
import { EventFacts } from "../../src/cli/explain/facts.ts";
import type { VolumeSnapshotFacts } from "../../src/cli/explain/volume-facts.ts";
import { Snapshot, SnapshotContent } from "../../src/kube/volumes/snapshots.ts";
import { Claim } from "../../src/kube/volumes/volumes.ts";

/** Objects of volumes and snapshots for tables of rules. */
export const now = new Date("2030-01-01T01:00:00Z");
export const early = "2030-01-01T00:00:00Z";
export const justNow = "2030-01-01T00:59:55Z";
export const metadata = { name: "a", namespace: "t", uid: "u", resourceVersion: "1", creationTimestamp: early };
export const names = {
  beingCreated: "snapshot.storage.kubernetes.io/volumesnapshot-being-created",
  beingDeleted: "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted",
  restoring: "provisioner.storage.kubernetes.io/volumesnapshot-as-source-protection",
  bound: "snapshot.storage.kubernetes.io/volumesnapshot-bound-protection",
  inGroup: "snapshot.storage.kubernetes.io/volumesnapshot-in-group-protection",
  content: "snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection",
} as const;
export const none = { value: undefined };
export const programs = { controller: none, sidecar: none, driver: none };
export const containing = (text: string) => expect.stringContaining(text) as string;

export function snapshot(
  status?: object,
  meta: object = {},
  spec: object = { source: { persistentVolumeClaimName: "data" } },
) {
  return Snapshot.parse({ metadata: { ...metadata, ...meta }, spec, ...(status && { status }) });
}

export function content(status?: object, meta: object = {}, spec: object = {}) {
  return SnapshotContent.parse({
    metadata: { name: "c", uid: "c", resourceVersion: "1", creationTimestamp: early, ...meta },
    spec: {
      driver: "csi.example",
      deletionPolicy: "Delete",
      volumeSnapshotRef: { namespace: "t", name: "a", uid: "u" },
      ...spec,
    },
    ...(status && { status }),
  });
}

export function event(reason: string, note: string, more: object = {}) {
  return EventFacts.parse({
    metadata: { ...metadata, name: "e" },
    type: "Warning",
    reason,
    note,
    eventTime: early,
    ...more,
  });
}

export const boundClaim = {
  value: Claim.parse({ metadata: { ...metadata, name: "data" }, spec: {}, status: { phase: "Bound" } }),
};

export function facts(of: Partial<VolumeSnapshotFacts>): VolumeSnapshotFacts {
  const unread = { events: { value: [] }, content: none, contentEvents: none, classes: { value: [] } };
  return { now, snapshot: snapshot(), ...unread, source: boundClaim, volume: none, claims: none, ...programs, ...of };
}

export const failed = (message: string) => ({ error: { message, time: early } });
export const handle = { snapshotHandle: "s-1" };
