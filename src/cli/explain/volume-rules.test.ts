import { describe, expect, it } from "vitest";
import { Snapshot, SnapshotClass, SnapshotContent } from "../../kube/volumes/snapshots.ts";
import { Claim } from "../../kube/volumes/volumes.ts";
import { explainContent } from "./content-rules.ts";
import { EventFacts } from "./facts.ts";
import { explainGroup, GroupSnapshot } from "./group-snapshot-rules.ts";
import { explainVolumeClaim } from "./volume-claim-rules.ts";
import {
  type ClaimFacts,
  type ContentFacts,
  restores,
  StorageClass,
  type VolumeSnapshotFacts,
} from "./volume-facts.ts";
import { phaseOfContent, phaseOfSnapshot } from "./volume-phase.ts";
import { explainVolumeSnapshot } from "./volume-snapshot-rules.ts";

const now = new Date("2030-01-01T01:00:00Z");
const early = "2030-01-01T00:00:00Z";
const justNow = "2030-01-01T00:59:55Z";
const metadata = { name: "a", namespace: "t", uid: "u", resourceVersion: "1", creationTimestamp: early };
const names = {
  beingCreated: "snapshot.storage.kubernetes.io/volumesnapshot-being-created",
  beingDeleted: "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted",
  restoring: "provisioner.storage.kubernetes.io/volumesnapshot-as-source-protection",
  bound: "snapshot.storage.kubernetes.io/volumesnapshot-bound-protection",
  inGroup: "snapshot.storage.kubernetes.io/volumesnapshot-in-group-protection",
  content: "snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection",
} as const;
const none = { value: undefined };
const programs = { controller: none, sidecar: none, driver: none };
const containing = (text: string) => expect.stringContaining(text) as string;

function snapshot(
  status?: object,
  meta: object = {},
  spec: object = { source: { persistentVolumeClaimName: "data" } },
) {
  return Snapshot.parse({ metadata: { ...metadata, ...meta }, spec, ...(status && { status }) });
}

function content(status?: object, meta: object = {}, spec: object = {}) {
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

function event(reason: string, note: string, more: object = {}) {
  return EventFacts.parse({
    metadata: { ...metadata, name: "e" },
    type: "Warning",
    reason,
    note,
    eventTime: early,
    ...more,
  });
}

const boundClaim = {
  value: Claim.parse({ metadata: { ...metadata, name: "data" }, spec: {}, status: { phase: "Bound" } }),
};

function facts(of: Partial<VolumeSnapshotFacts>): VolumeSnapshotFacts {
  const unread = { events: { value: [] }, content: none, contentEvents: none, classes: { value: [] } };
  return { now, snapshot: snapshot(), ...unread, source: boundClaim, volume: none, claims: none, ...programs, ...of };
}

const failed = (message: string) => ({ error: { message, time: early } });
const handle = { snapshotHandle: "s-1" };

describe("the phase of a VolumeSnapshot", () => {
  it.each([
    ["Pending", snapshot(), undefined],
    ["BlockedByClass", snapshot(failed("cannot find default snapshot class")), undefined],
    ["BlockedByClass", snapshot(failed("2 default snapshot classes were found")), undefined],
    [
      "BlockedBySource",
      snapshot(failed("the PVC x is not yet bound to a PV, will not attempt to take a snapshot")),
      undefined,
    ],
    ["BlockedBySource", snapshot(failed("cannot add finalizer on claim because it is being deleted")), undefined],
    ["BlockedBySource", snapshot(failed("cannot find CSI PersistentVolumeSource for volume v")), undefined],
    ["Creating", snapshot({}), content(undefined, { annotations: { [names.beingCreated]: "yes" } })],
    ["Cut", snapshot({ readyToUse: false }), content({ ...handle, readyToUse: false })],
    ["Cut", snapshot(failed("x")), content({ ...handle, readyToUse: false, ...failed("x") })],
    ["Ready", snapshot({ readyToUse: true }), content({ ...handle, readyToUse: true })],
    ["Failing", snapshot(failed("x")), content(failed("x"))],
    ["Failing", snapshot(failed("x")), undefined],
    ["Deleting", snapshot(undefined, { deletionTimestamp: justNow }), undefined],
    ["DeleteBlocked", snapshot(undefined, { deletionTimestamp: early }), undefined],
  ])("is %s", (phase, one, bound) => {
    expect(phaseOfSnapshot(facts({ snapshot: one, content: { value: bound } }))).toBe(phase);
  });

  it("is not Ready if only one side says so, or if the content is of another snapshot", () => {
    const ready = snapshot({ readyToUse: true });
    const other = { volumeSnapshotRef: { namespace: "t", name: "a", uid: "other" } };
    for (const one of [content({ ...handle, readyToUse: false }), content({ readyToUse: true }, {}, other)])
      expect(phaseOfSnapshot(facts({ snapshot: ready, content: { value: one } }))).not.toBe("Ready");
    expect(phaseOfSnapshot(facts({ snapshot: ready, content: { unknown: "forbidden" } }))).toBe("Ready");
  });

  it("is DeleteBlocked as soon as an Event says so", () => {
    const events = { value: [event("SnapshotDeletePending", "Snapshot is being used to restore a PVC")] };
    expect(phaseOfSnapshot(facts({ snapshot: snapshot(undefined, { deletionTimestamp: justNow }), events }))).toBe(
      "DeleteBlocked",
    );
    expect(phaseOfContent(content(undefined, { deletionTimestamp: early }), now)).toBe("DeleteBlocked");
  });
});

describe("a VolumeSnapshot", () => {
  const claim = (name: string, phase: string, source: object) =>
    Claim.parse({
      metadata: { ...metadata, name },
      spec: { dataSource: { kind: "VolumeSnapshot", ...source } },
      status: { phase },
    });

  it.each<[string, Partial<VolumeSnapshotFacts>, object]>([
    [
      "is ready",
      {
        snapshot: snapshot({ readyToUse: true, restoreSize: "2Gi" }),
        content: { value: content({ readyToUse: true }) },
      },
      { state: "healthy", phase: "Ready", cause: containing("2Gi") },
    ],
    [
      "is new",
      { snapshot: snapshot(undefined, { creationTimestamp: justNow }) },
      { state: "waiting", reason: "Pending" },
    ],
    ["is processed by nobody", {}, { state: "stuck", reason: "SnapshotControllerSilent" }],
    [
      "has a content of another snapshot",
      {
        snapshot: snapshot({ readyToUse: true }),
        content: {
          value: content({ readyToUse: true }, {}, { volumeSnapshotRef: { namespace: "other", name: "a", uid: "u" } }),
        },
      },
      { state: "stuck", reason: "Misbound" },
    ],
    [
      "has a content that was removed",
      { snapshot: snapshot({ readyToUse: true, boundVolumeSnapshotContentName: "c" }) },
      { reason: "SnapshotContentMissing", cause: containing("no longer exists") },
    ],
    [
      "names a content that does not exist",
      { snapshot: snapshot({}, {}, { source: { volumeSnapshotContentName: "c" } }) },
      { reason: "SnapshotContentMissing", action: containing("Create the VolumeSnapshotContent c") },
    ],
    [
      "waits for the copy, with an old error",
      { snapshot: snapshot(failed("odd")), content: { value: content({ ...handle, ...failed("odd") }) } },
      { state: "waiting", phase: "Cut", reason: "Copying", cause: containing("An earlier error") },
    ],
    [
      "is refused while it is copied",
      {
        snapshot: snapshot(failed("AccessDenied")),
        content: { value: content({ ...handle, ...failed("AccessDenied") }) },
      },
      { state: "stuck", reason: "StorageForbidden" },
    ],
    [
      "is bound now, but was not when it was tried",
      {
        snapshot: snapshot(failed("the PVC data is not yet bound to a PV, will not attempt to take a snapshot")),
        source: { value: claim("data", "Bound", { name: "x" }) },
      },
      { state: "waiting", reason: "SourceNotBound", action: containing("kubectl annotate volumesnapshot a -n t") },
    ],
    [
      "has a class that does not exist",
      {
        snapshot: snapshot(
          undefined,
          {},
          { source: { persistentVolumeClaimName: "data" }, volumeSnapshotClassName: "fast" },
        ),
        classes: {
          value: [
            SnapshotClass.parse({
              metadata: { ...metadata, name: "slow" },
              driver: "csi.example",
              deletionPolicy: "Delete",
            }),
          ],
        },
      },
      { reason: "SnapshotClassMissing", action: containing("slow") },
    ],
    [
      "has an unknown class if classes cannot be read",
      {
        snapshot: snapshot(
          undefined,
          {},
          { source: { persistentVolumeClaimName: "data" }, volumeSnapshotClassName: "fast" },
        ),
        classes: { unknown: "forbidden" },
      },
      { reason: "SnapshotControllerSilent" },
    ],
    ["is of a claim that does not exist", { source: none }, { reason: "SourceMissing" }],
    [
      "fails for a claim that does not exist",
      {
        snapshot: snapshot(
          failed(
            "Failed to create snapshot content with error snapshot controller failed to update a on API server: cannot get claim from snapshot",
          ),
        ),
      },
      { reason: "SourceMissing", phase: "BlockedBySource" },
    ],
    [
      "is a member of a group in deletion",
      {
        snapshot: snapshot({ volumeGroupSnapshotName: "g" }, { deletionTimestamp: early, finalizers: [names.inGroup] }),
      },
      { reason: "SnapshotInGroup", action: "Delete the group: kubectl delete volumegroupsnapshot g -n t" },
    ],
    [
      "is restored while it is deleted",
      {
        snapshot: snapshot({}, { deletionTimestamp: early, finalizers: [names.restoring] }),
        claims: { value: [claim("r", "Pending", { name: "a" })] },
      },
      { state: "waiting", reason: "SnapshotInUse", foundIn: "pvc/r" },
    ],
    [
      "is deleted with claims that cannot be read",
      {
        snapshot: snapshot({}, { deletionTimestamp: early, finalizers: [names.restoring] }),
        claims: { unknown: "forbidden" },
        events: { value: [event("SnapshotDeletePending", "Snapshot is being used to restore a PVC")] },
      },
      { state: "waiting", reason: "SnapshotInUse" },
    ],
    [
      "has the finalizer of another controller",
      { snapshot: snapshot({}, { deletionTimestamp: early, finalizers: ["example.com/x"] }), claims: { value: [] } },
      { reason: "Terminating", cause: containing("example.com/x") },
    ],
    [
      "is deleted without a controller",
      { snapshot: snapshot({}, { deletionTimestamp: early, finalizers: [names.bound] }), claims: { value: [] } },
      { reason: "SnapshotControllerSilent" },
    ],
  ])("%s", (_, of, found) => {
    expect(explainVolumeSnapshot(facts(of))).toMatchObject(found);
  });

  it("is restored by claims that name it in either field, also from another namespace", () => {
    const spec = (fields: object) => Claim.parse({ metadata, spec: fields });
    const source = { kind: "VolumeSnapshot", name: "a" };
    expect(restores(spec({ dataSource: source }), metadata)).toBe(true);
    expect(restores(spec({ dataSourceRef: source }), metadata)).toBe(true);
    expect(restores(spec({ dataSourceRef: { ...source, namespace: "other" } }), metadata)).toBe(false);
    expect(
      restores(spec({ dataSourceRef: { ...source, namespace: "other" } }), { namespace: "other", name: "a" }),
    ).toBe(true);
    expect(restores(spec({ dataSource: { ...source, kind: "PersistentVolumeClaim" } }), metadata)).toBe(false);
  });
});

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

describe("a claim", () => {
  const source = { kind: "VolumeSnapshot", apiGroup: "snapshot.storage.k8s.io", name: "a" };
  const claim = (phase: string, meta: object = {}, spec: object = {}) =>
    Claim.parse({
      metadata: { ...metadata, name: "r", ...meta },
      spec: { storageClassName: "fast", ...spec },
      status: { phase },
    });
  const storage = (fields: object = {}) => ({
    value: StorageClass.parse({ metadata, provisioner: "csi.example", ...fields }),
  });
  const all = (of: Partial<ClaimFacts>): ClaimFacts => {
    const unread = { events: { value: [] }, restored: undefined, restoredName: undefined, snapshots: { value: [] } };
    return { now, claim: claim("Pending"), storageClass: storage(), ...unread, ...of };
  };
  const ready = facts({
    snapshot: snapshot({ readyToUse: true }),
    content: { value: content({ readyToUse: true }, {}, { sourceVolumeMode: "Block" }) },
  });
  const provisioning = (note: string) => ({ value: [event("ProvisioningFailed", note)] });

  it.each<[string, Partial<ClaimFacts>, object]>([
    ["is bound", { claim: claim("Bound", {}, { volumeName: "v" }) }, { state: "healthy", phase: "Bound" }],
    ["lost its volume", { claim: claim("Lost") }, { state: "failed", reason: "Lost" }],
    [
      "waits for a Pod",
      { storageClass: storage({ volumeBindingMode: "WaitForFirstConsumer" }) },
      { state: "waiting", reason: "WaitForFirstConsumer" },
    ],
    [
      "restores a snapshot that is not ready",
      { claim: claim("Pending", {}, { dataSource: source }), restored: facts({}), restoredName: "a" },
      { reason: "SnapshotControllerSilent", foundIn: "volumesnapshot/a" },
    ],
    [
      "restores no existing snapshot",
      {
        restoredName: "a",
        events: provisioning(
          'error getting snapshot a from api server: volumesnapshots.snapshot.storage.k8s.io "a" not found',
        ),
      },
      { reason: "SnapshotMissing" },
    ],
    [
      "changes the mode of the volume",
      {
        restored: ready,
        restoredName: "a",
        events: provisioning(
          "requested volume t/r modifies the mode of the source volume but does not have permission to do so. snapshot.storage.kubernetes.io/allow-volume-mode-change annotation is not present on snapshotcontent c",
        ),
      },
      { reason: "VolumeModeChange", action: containing("kubectl annotate volumesnapshotcontent c ") },
    ],
    [
      "has the size of the Event if the snapshot cannot be read",
      { events: provisioning("requested volume size 1 is less than the size 2 for the source snapshot a") },
      { reason: "SizeTooSmall" },
    ],
    [
      "is throttled",
      { events: provisioning("rpc error: code = ResourceExhausted desc = RESOURCE_OPERATION_RATE_EXCEEDED") },
      { reason: "CloudThrottled", retry: containing("The provisioner") },
    ],
    ["has no provisioner", {}, { reason: "ProvisionerSilent" }],
    ["has no class", { storageClass: none }, { reason: "StorageClassMissing" }],
    ["is new", { claim: claim("Pending", { creationTimestamp: justNow }) }, { state: "waiting" }],
    [
      "is used by a Pod",
      { claim: claim("Bound", { deletionTimestamp: early, finalizers: ["kubernetes.io/pvc-protection"] }) },
      { reason: "ClaimInUse" },
    ],
    [
      "is kept by nothing that is known",
      {
        claim: claim("Bound", {
          deletionTimestamp: early,
          finalizers: ["snapshot.storage.kubernetes.io/pvc-as-source-protection"],
        }),
      },
      { reason: "SnapshotControllerSilent" },
    ],
  ])("%s", (_, of, found) => {
    expect(explainVolumeClaim(all(of))).toMatchObject(found);
  });
});

describe("a VolumeGroupSnapshot", () => {
  it.each([
    [{ readyToUse: true }, { state: "healthy", phase: "Ready" }],
    [failed("cannot find default group snapshot class"), { reason: "NoDefaultClass" }],
    [failed("label selector app=db for group snapshot not applied to any PVC"), { reason: "SourceMissing" }],
    [failed("rpc error: code = Internal desc = no"), { reason: "DriverError" }],
    [undefined, { reason: "SnapshotControllerSilent" }],
    [{ readyToUse: false }, { state: "waiting", reason: "Creating" }],
  ])("with %o", (status, found) => {
    const group = GroupSnapshot.parse({ metadata, ...(status && { status }) });
    expect(explainGroup({ now, group, events: { value: [] } })).toMatchObject(found);
  });
});
