import { describe, expect, it } from "vitest";
import {
  now,
  early,
  justNow,
  metadata,
  containing,
  none,
  snapshot,
  content,
  event,
  facts,
} from "../../../test/setup/volume-samples.ts";
import { Claim, StorageClass } from "../../kube/volumes/volumes.ts";
import { explainVolumeClaim } from "./volume-claim-rules.ts";
import type { ClaimFacts } from "./volume-facts.ts";

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
