import { expect } from "vitest";
import { type Complaint, containing, failedToTake, failing, readySnapshot } from "./volume-plays.ts";
import { error } from "./volume-scene.ts";

/** Complaints about snapshots that are not taken or not ready. */
export const complaints: readonly Complaint[] = [
  {
    complaint: "it stays unready without an error, as no sidecar runs",
    play: async (scene) => {
      await scene.boundClaim("data");
      const snapshot = await scene.snapshot("a");
      await scene.content(snapshot);
      const message = `Waiting for a snapshot ${scene.namespace}/a to be created by the CSI driver.`;
      await scene.world.event(snapshot, { reason: "CreatingSnapshot", message, type: "Normal" });
      await scene.bind(snapshot);
      return "volumesnapshot/a";
    },
    later: 60,
    found: {
      phase: "Pending",
      reason: "SidecarSilent",
      state: "stuck",
      cause: containing(
        "No sidecar of the driver ebs.csi.aws.com has processed it; the cluster has no CSIDriver ebs.csi.aws.com; no process has the Lease external-snapshotter-leader-ebs-csi-aws-com",
      ),
      action: containing("Run csi-snapshotter"),
      lastEvent: { reason: "CreatingSnapshot" },
    },
  },
  {
    complaint: "it has no content at all",
    play: async (scene) => {
      await scene.boundClaim("data");
      await scene.snapshot("a", undefined, { finalizers: [] });
      return "vs/a";
    },
    later: 60,
    found: {
      phase: "Pending",
      reason: "SnapshotControllerSilent",
      state: "stuck",
      cause: containing("no content, no status and no Event; no process has the Lease snapshot-controller-leader"),
      action: containing("Start the snapshot-controller"),
    },
  },
  {
    complaint: "the claim is not bound, and the retry within the same second met a different error",
    play: async (scene) => {
      await scene.claim("data");
      const snapshot = await scene.snapshot("a");
      const failed = "Failed to create snapshot content with error";
      const reason = "SnapshotContentCreationFailed";
      await scene.world.event(snapshot, { reason, message: `${failed} snapshot controller failed to update data` });
      const message = `${failed} the PVC data is not yet bound to a PV, will not attempt to take a snapshot`;
      await scene.world.event(snapshot, { reason, message });
      await scene.report(snapshot, error(message));
      return "vs/a";
    },
    found: {
      phase: "BlockedBySource",
      reason: "SourceNotBound",
      state: "stuck",
      cause: containing("The PersistentVolumeClaim data is not bound"),
      action: containing("ramet explain pvc/data"),
      foundIn: "pvc/data",
      retry: containing("pauses of at most 5 minutes"),
      lastEvent: { reason: "SnapshotContentCreationFailed", message: containing("not yet bound") },
    },
  },
  {
    complaint: "an error is shown although the snapshot is complete",
    play: async (scene) => {
      await readySnapshot(scene, {
        readyToUse: false,
        ...error(failedToTake("code = DeadlineExceeded desc = context deadline exceeded")),
      });
      return "vs/a";
    },
    found: {
      reason: "StatusLag",
      state: "waiting",
      cause: containing("its content snapcontent-"),
      retry: containing("within 15 minutes"),
      action: containing("kubectl annotate volumesnapshot a -n "),
    },
  },
  {
    complaint: "too many snapshots of one volume, and no pauses between them",
    play: (scene) =>
      failing(
        scene,
        failedToTake(
          "code = Internal desc = Could not create snapshot: SnapshotCreationPerVolumeRateExceeded: The maximum per volume CreateSnapshot request rate has been exceeded. Use an increasing or variable sleep interval between requests.",
        ),
        { count: 40, seconds: 20 },
      ),
    found: {
      phase: "Failing",
      reason: "CaptureRateExceeded",
      state: "stuck",
      cause: containing("repeats the call without pauses (40 times)"),
      action: containing("Upgrade csi-snapshotter of the driver ebs.csi.aws.com to 8.0"),
    },
  },
  {
    complaint: "the cloud throttles the driver",
    play: (scene) =>
      failing(
        scene,
        failedToTake(
          "code = Internal desc = Retriable: true, RetryAfter: 3590s, HTTPStatusCode: 0, RawError: azure cloud provider throttled for operation SnapshotCreateOrUpdate with reason client throttled",
        ),
      ),
    found: {
      phase: "Failing",
      reason: "CloudThrottled",
      state: "waiting",
      cause: containing("The cloud throttles the driver for 3590 s"),
      action: containing("start fewer at a time"),
    },
  },
  {
    complaint: "the driver has several default classes",
    play: async (scene) => {
      await scene.boundClaim("data");
      await scene.snapshotClass({ suffix: "1", isDefault: true });
      await scene.snapshotClass({ suffix: "2", isDefault: true });
      const snapshot = await scene.snapshot("a", undefined, { finalizers: [] });
      const message = "Failed to set default snapshot class with error 2 default snapshot classes were found";
      await scene.world.event(snapshot, { reason: "SetDefaultSnapshotClassFailed", message });
      await scene.report(snapshot, error(message));
      return "vs/a";
    },
    found: {
      phase: "BlockedByClass",
      reason: "SeveralDefaultClasses",
      state: "stuck",
      cause: expect.stringMatching(
        /^The driver ebs.csi.aws.com has 2 default VolumeSnapshotClasses: t\d+-1, t\d+-2$/,
      ) as string,
      action: containing("kubectl annotate volumesnapshotclass"),
    },
  },
  {
    complaint: "the driver has no default class",
    play: async (scene) => {
      await scene.boundClaim("data");
      const snapshot = await scene.snapshot("a", undefined, { finalizers: [] });
      const message = "Failed to set default snapshot class with error cannot find default snapshot class";
      await scene.world.event(snapshot, { reason: "SetDefaultSnapshotClassFailed", message });
      await scene.report(snapshot, error(message));
      return "vs/a";
    },
    found: {
      phase: "BlockedByClass",
      reason: "NoDefaultClass",
      state: "stuck",
      cause: containing("the driver ebs.csi.aws.com has no default one"),
      action: containing("Set spec.volumeSnapshotClassName"),
    },
  },
  {
    complaint: "the class was deleted first",
    play: async (scene) => {
      await scene.boundClaim("data");
      const name = `${scene.namespace}-gone`;
      const snapshot = await scene.snapshot("a", {
        source: { persistentVolumeClaimName: "data" },
        volumeSnapshotClassName: name,
      });
      const message = `Failed to get snapshot class with error volumesnapshotclass.snapshot.storage.k8s.io "${name}" not found`;
      await scene.world.event(snapshot, { reason: "GetSnapshotClassFailed", message });
      await scene.report(snapshot, error(message));
      return "vs/a";
    },
    found: {
      phase: "BlockedByClass",
      reason: "SnapshotClassMissing",
      state: "stuck",
      cause: expect.stringMatching(/^Its VolumeSnapshotClass t\d+-gone does not exist$/) as string,
      action: containing("again"),
    },
  },
  {
    complaint: "a quota of the namespace stops the members of a group",
    play: async (scene) => {
      const group = await scene.group("g");
      await scene.fullQuota("few");
      await scene.reportOfGroup(group, { readyToUse: false, boundVolumeGroupSnapshotContentName: "c" });
      return "vgs/g";
    },
    found: {
      phase: "Pending",
      reason: "QuotaExceeded",
      state: "stuck",
      cause: containing(
        "the ResourceQuota few allows 5 of count/volumesnapshots.snapshot.storage.k8s.io, and 5 are used",
      ),
      action: containing("kubectl describe resourcequota few"),
    },
  },
  {
    complaint: "a quota of the cloud is used up",
    play: (scene) =>
      failing(
        scene,
        failedToTake(
          "code = ResourceExhausted desc = failed to create snapshot: googleapi: Error 403: QUOTA_EXCEEDED - Quota 'SNAPSHOTS' exceeded.  Limit: 5000.0 globally.",
        ),
      ),
    found: {
      reason: "CloudQuotaExceeded",
      state: "stuck",
      cause: containing("Limit: 5000.0"),
      action: containing("Delete snapshots"),
    },
  },
  {
    complaint: "the driver is not allowed to, since its policy changed",
    play: (scene) =>
      failing(
        scene,
        failedToTake(
          "code = Internal desc = Could not create snapshot: operation error EC2: CreateSnapshot, https response error StatusCode: 403, api error UnauthorizedOperation: You are not authorized to perform this operation. Encoded authorization failure message: " +
            "x".repeat(2_000),
        ),
      ),
    found: {
      phase: "Failing",
      reason: "StorageForbidden",
      state: "stuck",
      cause: containing("UnauthorizedOperation"),
      action: containing("ebs.csi.aws.com/cluster=true"),
    },
  },
  {
    complaint: "containerd no longer restores checkpoint images",
    play: async (scene) => {
      await scene.waitingSandbox(
        "s",
        "CreateContainerError",
        "failed to create containerd container: checkpoint restore via CreateContainer is disabled by configuration",
      );
      return "sandbox/s";
    },
    found: {
      reason: "CreateContainerError",
      state: "stuck",
      cause: containing("disabled by configuration"),
      action: containing("Create the sandbox from a Checkpoint of Ramet"),
      foundIn: "pod/s",
    },
  },
];
