import { expect } from "vitest";
import { type Complaint, containing, fromSnapshot, ofProvisioner, readySnapshot, restoring } from "./volume-plays.ts";
import { handle } from "./volume-scene.ts";

/** Complaints about deletions and restores. */
export const deletionComplaints: readonly Complaint[] = [
  {
    complaint: "a deleted snapshot and the claim that restores it wait for each other",
    play: async (scene) => {
      const snapshot = await readySnapshot(scene);
      await scene.remove(snapshot);
      await restoring(scene, {}, "snapshot a is being deleted");
      const message = "Snapshot is being used to restore a PVC";
      await scene.world.event(snapshot, { reason: "SnapshotDeletePending", message });
      return "vs/a";
    },
    found: {
      phase: "DeleteBlocked",
      reason: "RestoreDeadlock",
      state: "stuck",
      cause: containing("waits for the PersistentVolumeClaim restored"),
      action: containing("kubectl delete pvc restored"),
      lastEvent: { reason: "SnapshotDeletePending" },
    },
  },
  {
    complaint: "external-provisioner 6.2 left its finalizer behind",
    play: async (scene) => {
      const snapshot = await scene.snapshot("a", undefined, { finalizers: [ofProvisioner] });
      await scene.content(snapshot, { status: { readyToUse: true, ...handle } });
      await scene.bind(snapshot, { readyToUse: true });
      await scene.claim("restored", { dataSource: fromSnapshot }, { phase: "Bound" });
      await scene.remove(snapshot);
      return "vs/a";
    },
    later: 600,
    found: {
      phase: "DeleteBlocked",
      reason: "OrphanedFinalizer",
      state: "stuck",
      cause: containing(ofProvisioner),
      action: containing("--remove-orphaned-finalizer"),
    },
  },
  {
    complaint: "a content hangs, as its snapshot vanished before it",
    play: async (scene) => {
      const snapshot = await scene.snapshot("a", undefined, { finalizers: [] });
      const content = await scene.content(snapshot, { status: { readyToUse: true, ...handle } });
      await scene.remove(snapshot);
      await scene.remove(content);
      return `vsc/${content.metadata.name}`;
    },
    later: 120,
    found: {
      phase: "DeleteBlocked",
      reason: "SnapshotVanishedFirst",
      state: "stuck",
      cause: containing("Its VolumeSnapshot a in namespace"),
      retry: containing("None"),
      action: containing("volumesnapshot-being-deleted=yes"),
    },
  },
  {
    complaint: "a claim cannot be deleted, as a snapshot of it is not ready",
    play: async (scene) => {
      const claim = await scene.boundClaim("data", {
        finalizers: ["snapshot.storage.kubernetes.io/pvc-as-source-protection"],
      });
      const snapshot = await scene.snapshot("slow");
      await scene.content(snapshot);
      await scene.bind(snapshot);
      await scene.remove(claim);
      return "pvc/data";
    },
    later: 120,
    found: {
      phase: "DeleteBlocked",
      reason: "SnapshotsNotReady",
      state: "stuck",
      cause: containing("slow"),
      action: containing("ramet explain volumesnapshot/slow"),
      foundIn: "volumesnapshot/slow",
    },
  },
  {
    complaint: "a deletion during a slow creation never happens",
    play: async (scene) => {
      const snapshot = await scene.snapshot("a");
      const content = await scene.content(snapshot, {
        annotations: { "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted": "yes" },
        status: { readyToUse: true, ...handle },
      });
      await scene.bind(snapshot, { readyToUse: true });
      await scene.remove(snapshot);
      await scene.remove(content);
      return "vs/a";
    },
    later: 900,
    found: {
      phase: "DeleteBlocked",
      reason: "DeletionForgotten",
      state: "stuck",
      cause: containing("has no call for it"),
      action: containing("restart the sidecar"),
      foundIn: containing("volumesnapshotcontent/snapcontent-"),
    },
  },
  {
    complaint: "a restore may leave a volume in the storage",
    play: async (scene) => {
      const snapshot = await readySnapshot(scene);
      const claim = await scene.claim(
        "restored",
        { dataSource: fromSnapshot },
        { finalizers: ["kubernetes.io/pvc-protection"] },
      );
      const provisioning = `External provisioner is provisioning volume for claim "${scene.namespace}/restored"`;
      await scene.world.event(claim, { reason: "Provisioning", message: provisioning, type: "Normal" });
      await scene.remove(snapshot);
      await scene.remove(claim);
      return "pvc/restored";
    },
    found: {
      reason: "VolumeMayLeak",
      state: "stuck",
      cause: containing("the VolumeSnapshot a"),
      action: expect.stringMatching(/the volume pvc-[0-9a-f-]{36}, .*external-provisioner 6\.2/) as string,
    },
  },
  {
    complaint: "a content stays after its snapshot",
    play: async (scene) => {
      const snapshot = await scene.snapshot("a", undefined, { finalizers: [] });
      const content = await scene.content(snapshot, {
        spec: { deletionPolicy: "Retain" },
        status: { readyToUse: true, ...handle },
      });
      await scene.remove(snapshot);
      return `vsc/${content.metadata.name}`;
    },
    found: {
      phase: "Ready",
      reason: "OrphanedContent",
      state: "degraded",
      cause: containing(`the snapshot ${handle.snapshotHandle} stays in the storage`),
      action: containing("Adopt the snapshot"),
    },
  },
  {
    complaint: "the claim is smaller than the snapshot",
    play: async (scene) => {
      const storageClassName = await scene.storageClass();
      await readySnapshot(scene, { restoreSize: "2Gi" });
      await restoring(
        scene,
        { storageClassName },
        "requested volume size 1073741824 is less than the size 2147483648 for the source snapshot a",
      );
      return "pvc/restored";
    },
    found: {
      phase: "Pending",
      reason: "SizeTooSmall",
      state: "stuck",
      cause: "It requests 1Gi, and the snapshot a needs at least 2Gi",
      action: containing("storage: 2Gi"),
      lastEvent: { reason: "ProvisioningFailed" },
    },
  },
  {
    complaint: "the snapshot is of another driver",
    play: async (scene) => {
      const storageClassName = await scene.storageClass({ provisioner: "ebs.csi.eks.amazonaws.com" });
      await readySnapshot(scene);
      const why = `snapshotcontent snapcontent-1 for snapshot a is not handled by CSI driver of StorageClass ${storageClassName}`;
      await restoring(scene, { storageClassName }, why);
      return "pvc/restored";
    },
    found: {
      phase: "Pending",
      reason: "DifferentDriver",
      state: "stuck",
      cause: containing("is of the driver ebs.csi.aws.com, and the StorageClass"),
      action: containing("import the snapshot's handle for ebs.csi.eks.amazonaws.com"),
    },
  },
];
