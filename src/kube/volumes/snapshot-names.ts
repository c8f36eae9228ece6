/** The finalizers and annotations of external-snapshotter v8.7 (pkg/utils/util.go) and external-provisioner v6.3. */
const prefix = "snapshot.storage.kubernetes.io";

export const volumeFinalizers = {
  /** On a VolumeSnapshot: its content exists. */
  bound: `${prefix}/volumesnapshot-bound-protection`,
  /** On a VolumeSnapshot: a claim may be restoring it. */
  asSource: `${prefix}/volumesnapshot-as-source-protection`,
  /** On a VolumeSnapshot, since external-provisioner 6.2: a restore has started. */
  restoring: "provisioner.storage.kubernetes.io/volumesnapshot-as-source-protection",
  /** On a VolumeSnapshot: it is a member of a group. */
  inGroup: `${prefix}/volumesnapshot-in-group-protection`,
  /** On a VolumeSnapshotContent: the storage still has the snapshot. */
  content: `${prefix}/volumesnapshotcontent-bound-protection`,
  /** On a claim: a snapshot of it is being taken. */
  source: `${prefix}/pvc-as-source-protection`,
} as const;

export const contentAnnotations = {
  /** CreateSnapshot was called, and the driver has given no final answer. */
  beingCreated: `${prefix}/volumesnapshot-being-created`,
  /** The snapshot-controller saw that the VolumeSnapshot is being deleted. */
  beingDeleted: `${prefix}/volumesnapshot-being-deleted`,
  /** Lets a restore change the volume's mode. */
  allowModeChange: `${prefix}/allow-volume-mode-change`,
} as const;

const groupPrefix = "groupsnapshot.storage.kubernetes.io";

export const groupFinalizers = {
  /** On a VolumeGroupSnapshotContent: the storage still has the snapshots. The sidecar removes it. */
  content: `${groupPrefix}/volumegroupsnapshotcontent-bound-protection`,
} as const;

export const groupContentAnnotations = {
  /** CreateVolumeGroupSnapshot was called, and the driver has given no final answer. */
  beingCreated: `${groupPrefix}/volumegroupsnapshot-being-created`,
  /** The snapshot-controller saw that the VolumeGroupSnapshot is being deleted. */
  beingDeleted: `${groupPrefix}/volumegroupsnapshot-being-deleted`,
} as const;

export const defaultGroupClassAnnotation = `${groupPrefix}/is-default-class`;

export const defaultClassAnnotation = `${prefix}/is-default-class`;
