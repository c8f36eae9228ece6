import { coreResources, type ResourceRef } from "../../kube/resource-ref.ts";
import { snapshotResources } from "../../kube/volumes/snapshots.ts";
import type { VolumeKindName } from "./volume-kinds.ts";

export const volumeKinds: Readonly<Record<VolumeKindName, ResourceRef>> = {
  volumesnapshot: snapshotResources.snapshots,
  volumesnapshotcontent: snapshotResources.contents,
  pvc: coreResources.persistentVolumeClaims,
  volumegroupsnapshot: {
    group: "groupsnapshot.storage.k8s.io",
    version: "v1beta2",
    plural: "volumegroupsnapshots",
    kind: "VolumeGroupSnapshot",
    namespaced: true,
  },
};
