import { describe, expect, it } from "vitest";
import {
  now,
  early,
  justNow,
  metadata,
  names,
  containing,
  none,
  programs,
  snapshot,
  content,
  event,
  failed,
  handle,
} from "../../../test/setup/volume-samples.ts";
import { explainContent } from "./content-rules.ts";
import { type ContentFacts } from "./volume-facts.ts";

describe("a VolumeSnapshotContent", () => {
  const lease = (renewTime: string) => ({
    value: { metadata, spec: { holderIdentity: "pod-1", renewTime, leaseDurationSeconds: 15 } },
  });
  const all = (of: Partial<ContentFacts>): ContentFacts => {
    const unread = { events: { value: [] }, snapshot: { value: snapshot() }, classes: { value: [] } };
    return { now, content: content(), ...unread, ...programs, ...of };
  };
  const deleted = (meta: object = {}) =>
    content(handle, { deletionTimestamp: early, finalizers: [names.content], ...meta });

  it.each<[string, Partial<ContentFacts>, object]>([
    [
      "waits for its sidecar",
      { content: content(undefined, { creationTimestamp: justNow }) },
      { state: "waiting", reason: "Pending" },
    ],
    [
      "has a sidecar without rights",
      { sidecar: lease("2030-01-01T00:59:58.000000Z") },
      { reason: "SidecarSilent", cause: containing("although pod-1 renewed the Lease") },
    ],
    [
      "has a dead sidecar",
      { sidecar: lease(early) },
      {
        reason: "SidecarSilent",
        cause: containing("has not renewed the Lease external-snapshotter-leader-csi-example for 3600 s"),
      },
    ],
    [
      "is being created for long",
      { content: content(undefined, { annotations: { [names.beingCreated]: "yes" } }) },
      { state: "stuck", phase: "Creating", reason: "Creating" },
    ],
    [
      "lost its class before the snapshot",
      { content: content(undefined, {}, { volumeSnapshotClassName: "gone" }) },
      { reason: "SnapshotClassMissing" },
    ],
    [
      "lost its class, as the sidecar reports",
      {
        content: content(
          failed(
            'Failed to create snapshot: failed to get input parameters to create snapshot for content c: "volumesnapshotclass.snapshot.storage.k8s.io \\"gone\\" not found"',
          ),
          {},
          { volumeSnapshotClassName: "gone" },
        ),
      },
      { reason: "SnapshotClassMissing" },
    ],
    [
      "does not need its class any more",
      { content: content({ ...handle, readyToUse: true }, {}, { volumeSnapshotClassName: "gone" }) },
      { state: "healthy" },
    ],
    [
      "is reserved for a snapshot",
      { content: content(undefined, {}, { volumeSnapshotRef: { namespace: "t", name: "later" } }), snapshot: none },
      { state: "waiting", reason: "AwaitsSnapshot" },
    ],
    [
      "has another snapshot of the same name",
      { snapshot: { value: snapshot(undefined, { uid: "new" }) } },
      { reason: "OrphanedContent", cause: containing("another one of the same name") },
    ],
    [
      "is no orphan if its snapshot cannot be read",
      { content: content({ readyToUse: true }), snapshot: { unknown: "forbidden" } },
      { state: "healthy" },
    ],
    [
      "is deleted before its snapshot",
      { content: deleted() },
      { reason: "ContentDeletedFirst", action: "Delete the VolumeSnapshot: kubectl delete volumesnapshot a -n t" },
    ],
    [
      "is deleted while it is created",
      { content: deleted({ annotations: { [names.beingCreated]: "yes" } }) },
      { reason: "CreationUnanswered" },
    ],
    [
      "cannot be deleted in the storage",
      {
        content: deleted({ annotations: { [names.beingDeleted]: "yes" } }),
        events: { value: [event("SnapshotDeleteError", "Failed to delete snapshot")] },
      },
      { reason: "StorageDeleteFails", lastEvent: { reason: "SnapshotDeleteError" } },
    ],
    [
      "is being deleted",
      { content: deleted({ deletionTimestamp: justNow, annotations: { [names.beingDeleted]: "yes" } }) },
      { state: "waiting", reason: "Terminating", phase: "Deleting" },
    ],
    [
      "has the finalizer of another controller",
      { content: deleted({ finalizers: ["example.com/x"] }) },
      { cause: containing("example.com/x") },
    ],
    [
      "is repeated without pauses",
      {
        content: content(failed("x")),
        events: {
          value: [
            event("SnapshotCreationFailed", "x", {
              deprecatedCount: 100,
              deprecatedFirstTimestamp: early,
              deprecatedLastTimestamp: "2030-01-01T00:01:00Z",
            }),
          ],
        },
      },
      { reason: "RetryStorm", cause: containing("(100 times)") },
    ],
    [
      "is repeated with pauses",
      {
        content: content(failed("x")),
        events: {
          value: [
            event("SnapshotCreationFailed", "x", {
              deprecatedCount: 12,
              deprecatedFirstTimestamp: early,
              deprecatedLastTimestamp: "2030-01-01T00:30:00Z",
            }),
          ],
        },
      },
      { reason: "DriverError" },
    ],
  ])("%s", (_, of, found) => {
    expect(explainContent(all(of))).toMatchObject(found);
  });
});
