import type { KubeObject } from "../../kube/object.ts";
import { type Preparation, preparationAnnotation } from "../../kube/volumes/preparation.ts";
import { describe, expect, it } from "vitest";
import {
  early,
  justNow,
  metadata,
  names,
  containing,
  none,
  snapshot,
  content,
  event,
  facts,
  failed,
  handle,
} from "../../../test/setup/volume-samples.ts";
import { SnapshotClass } from "../../kube/volumes/snapshots.ts";
import { Claim } from "../../kube/volumes/volumes.ts";
import { restores, type VolumeSnapshotFacts } from "./volume-facts.ts";
import { explainVolumeSnapshot } from "./volume-snapshot-rules.ts";

/** The CSIDriver of a local cluster. */
function preparing(preparation: Preparation): KubeObject {
  const annotations = { [preparationAnnotation]: JSON.stringify(preparation) };
  return { metadata: { name: "d", uid: "d", resourceVersion: "1", annotations } };
}

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
      "waits for programs that the local cluster builds",
      { driver: { value: preparing({ since: "2026-01-02T03:00:00Z" }) } },
      { state: "waiting", reason: "Preparing", cause: containing("for "), action: containing("ramet local status") },
    ],
    [
      "waits for programs that the local cluster cannot build",
      { driver: { value: preparing({ since: "2026-01-02T03:00:00Z", failure: "Go is not installed" }) } },
      { state: "stuck", reason: "PreparationFailed", cause: containing("Go is not installed") },
    ],
    [
      "is processed by nobody although the programs are there",
      { driver: { value: preparing({ since: "2026-01-02T03:00:00Z", until: "2026-01-02T03:01:00Z" }) } },
      { state: "stuck", reason: "SnapshotControllerSilent" },
    ],
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
