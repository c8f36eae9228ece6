import { expect } from "vitest";
import { type Complaint, containing } from "./volume-plays.ts";
import { handle } from "./volume-scene.ts";

const groupClasses = "volumegroupsnapshotclasses.groupsnapshot.storage.k8s.io";

/** Complaints about a whole cluster. */
export const clusterComplaints: readonly Complaint[] = [
  {
    complaint: "the storage keeps snapshots that nothing knows",
    check: "snapshot-leaks",
    play: async (scene) => {
      const snapshot = await scene.snapshot("a");
      await scene.content(snapshot, { status: { readyToUse: true, ...handle, snapshotHandle: "snap-known" } });
      const fresh = new Date().toISOString();
      return [
        "--snapshot-handles",
        await scene.world.file(`snap-known\nsnap-lost 2020-01-01T00:00:00Z\nsnap-new ${fresh}\n`),
      ];
    },
    found: { message: containing("snapshots of the list: snap-lost"), action: containing("carry the tag") },
  },
  {
    complaint: "orphaned contents pile up",
    check: "snapshot-contents",
    play: async (scene) => {
      const snapshot = await scene.snapshot("a", undefined, { finalizers: [] });
      await scene.content(snapshot, { spec: { deletionPolicy: "Retain" }, status: { readyToUse: true, ...handle } });
      await scene.remove(snapshot);
      await scene.snapshot("a");
      return [];
    },
    found: {
      message: containing("no VolumeSnapshot, and their snapshots cost money"),
      action: containing("ramet explain"),
    },
  },
  {
    complaint: "the CRDs of groups cannot be upgraded",
    check: "snapshot-crds",
    play: async (scene) => {
      await scene.world.changeCrd(groupClasses, (crd) => {
        const [version] = crd.spec.versions;
        crd.spec.versions.forEach((one) => (one.storage = false));
        return { ...crd.spec, versions: [...crd.spec.versions, { ...version, name: "v1alpha1", storage: true }] };
      });
      return [];
    },
    found: { message: containing("may be stored as v1alpha1"), action: containing("delete the three CRDs") },
  },
  {
    complaint: "the conversion webhook of groups has no server",
    check: "snapshot-crds",
    play: async (scene) => {
      const service = { namespace: "kube-system", name: "snapshot-conversion-webhook-service", path: "/convert" };
      const webhook = { clientConfig: { service }, conversionReviewVersions: ["v1"] };
      await scene.world.changeCrd("volumegroupsnapshotcontents.groupsnapshot.storage.k8s.io", ({ spec }) => ({
        ...spec,
        conversion: { strategy: "Webhook", webhook },
      }));
      return [];
    },
    found: {
      message: containing("calls the service kube-system/snapshot-conversion-webhook-service, which does not exist"),
      action: containing('"strategy":"None"'),
    },
  },
  {
    complaint: "the snapshot-controller crashes at scale",
    check: "snapshot-controller",
    play: async (scene) => {
      await scene.controllerPod({ image: "registry.example/sig-storage/snapshot-controller:v8.0.1", restarts: 12 });
      return [];
    },
    found: {
      message: containing("v8.0.1"),
      action: containing("Upgrade external-snapshotter to 8.2 or later, then give it more memory"),
    },
  },
  {
    complaint: "a quota refuses snapshots",
    check: "snapshot-quota",
    play: async (scene) => {
      await scene.fullQuota("few");
      // The API server knows a quota some moments after it was written.
      let count = 0;
      const refusal = () => scene.snapshot(`a${(count += 1)}`).then(() => "", String);
      await expect.poll(refusal).toContain("exceeded quota: few");
      return [];
    },
    found: {
      message: containing("few (count/volumesnapshots.snapshot.storage.k8s.io: 5 of 5)"),
      action: containing("kubectl describe resourcequota -n t"),
    },
  },
];
