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
