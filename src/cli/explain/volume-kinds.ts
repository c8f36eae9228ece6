import { type ResourceRef, coreResources } from "../../kube/resource-ref.ts";
import { snapshotResources } from "../../kube/volumes/snapshots.ts";

/** The kinds of volumes and their snapshots, which only `ramet explain` knows. They belong to Kubernetes and external-snapshotter. */
export const volumeKindNames = ["volumesnapshot", "volumesnapshotcontent", "pvc", "volumegroupsnapshot"] as const;
export type VolumeKindName = (typeof volumeKindNames)[number];

/** kubectl's spellings of each kind. */
const spellings: Readonly<Record<VolumeKindName, readonly string[]>> = {
  volumesnapshot: ["volumesnapshot", "volumesnapshots", "vs"],
  volumesnapshotcontent: ["volumesnapshotcontent", "volumesnapshotcontents", "vsc", "vscs"],
  pvc: ["pvc", "pvcs", "persistentvolumeclaim", "persistentvolumeclaims"],
  volumegroupsnapshot: ["volumegroupsnapshot", "volumegroupsnapshots", "vgs"],
};

export function volumeKindSpelled(text: string): VolumeKindName | undefined {
  const word = text.toLowerCase();
  return volumeKindNames.find((name) => spellings[name].includes(word));
}

export function isVolumeKind(name: string): name is VolumeKindName {
  return volumeKindNames.some((one) => one === name);
}

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
