import * as z from "zod";
import { unlessCode } from "../../base/errors.ts";
import type { KubeClient } from "../kube-client.ts";
import { ObjectMeta } from "../object.ts";
import type { ResourceClient } from "../resource-client.ts";
import { clusterRef, namespacedRef } from "../resource-ref.ts";

/** The kinds of external-snapshotter v8, https://github.com/kubernetes-csi/external-snapshotter (client/apis/volumesnapshot/v1). */
const apiVersion = "snapshot.storage.k8s.io/v1";

/** The last error of the snapshot-controller or of the sidecar, which repeat what failed. The text is the driver's. */
export const SnapshotError = z.looseObject({ message: z.string().optional(), time: z.string().optional() });

const Text = z.string().optional();
const ObjectReference = z.looseObject({ namespace: Text, name: Text, uid: Text });

export const Snapshot = z.looseObject({
  metadata: ObjectMeta,
  spec: z
    .looseObject({
      volumeSnapshotClassName: z.string().optional(),
      source: z.looseObject({
        persistentVolumeClaimName: z.string().optional(),
        volumeSnapshotContentName: z.string().optional(),
      }),
    })
    .optional(),
  status: z
    .looseObject({
      boundVolumeSnapshotContentName: z.string().optional(),
      /** When the content was captured, as RFC 3339. */
      creationTime: z.string().optional(),
      readyToUse: z.boolean().optional(),
      /** A quantity. */
      restoreSize: z.string().optional(),
      /** The group that it is a member of. */
      volumeGroupSnapshotName: z.string().optional(),
      error: SnapshotError.optional(),
    })
    .optional(),
});
export type Snapshot = z.infer<typeof Snapshot>;

export const SnapshotContent = z.looseObject({
  metadata: ObjectMeta,
  spec: z.looseObject({
    driver: z.string(),
    deletionPolicy: z.string().optional(),
    volumeSnapshotClassName: z.string().optional(),
    sourceVolumeMode: z.string().optional(),
    source: z.looseObject({ volumeHandle: z.string().optional(), snapshotHandle: z.string().optional() }).optional(),
    volumeSnapshotRef: ObjectReference,
  }),
  status: z
    .looseObject({
      snapshotHandle: z.string().optional(),
      /** When the content was captured, in nanoseconds since 1970, of which a number in JavaScript keeps the microseconds. */
      creationTime: z.number().optional(),
      readyToUse: z.boolean().optional(),
      /** Bytes. */
      restoreSize: z.number().optional(),
      /** The group that it is a member of, as its driver names it. The sidecar then deletes the data only with the group. */
      volumeGroupSnapshotHandle: z.string().optional(),
      error: SnapshotError.optional(),
    })
    .optional(),
});
export type SnapshotContent = z.infer<typeof SnapshotContent>;

export const SnapshotClass = z.looseObject({ metadata: ObjectMeta, driver: z.string(), deletionPolicy: z.string() });
export type SnapshotClass = z.infer<typeof SnapshotClass>;

export const snapshotResources = {
  snapshots: namespacedRef(apiVersion, "VolumeSnapshot"),
  contents: clusterRef(apiVersion, "VolumeSnapshotContent"),
  classes: clusterRef(apiVersion, "VolumeSnapshotClass"),
};

export function snapshotsIn(client: KubeClient): ResourceClient<Snapshot> {
  return client.resource(snapshotResources.snapshots, (value) => Snapshot.parse(value));
}

export function snapshotContentsIn(client: KubeClient): ResourceClient<SnapshotContent> {
  return client.resource(snapshotResources.contents, (value) => SnapshotContent.parse(value));
}

export function snapshotClassesIn(client: KubeClient): ResourceClient<SnapshotClass> {
  return client.resource(snapshotResources.classes, (value) => SnapshotClass.parse(value));
}

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

/** The kinds of external-snapshotter v8.4 and later (client/apis/volumegroupsnapshot). */
const group = "groupsnapshot.storage.k8s.io";

/** `v1` since v8.6, and `v1beta2` since v8.4. They have the same fields. */
const versions = ["v1", "v1beta2"] as const;

export const GroupSnapshot = z.looseObject({
  metadata: ObjectMeta,
  status: z
    .looseObject({
      boundVolumeGroupSnapshotContentName: z.string().optional(),
      /** When the members were captured, as RFC 3339. It is set after the members exist. */
      creationTime: z.string().optional(),
      readyToUse: z.boolean().optional(),
      error: SnapshotError.optional(),
    })
    .optional(),
});
export type GroupSnapshot = z.infer<typeof GroupSnapshot>;

export const GroupSnapshotContent = z.looseObject({
  metadata: ObjectMeta,
  spec: z.looseObject({
    driver: z.string(),
    deletionPolicy: z.string().optional(),
    source: z.looseObject({ volumeHandles: z.array(z.string()).optional() }),
    volumeGroupSnapshotRef: ObjectReference,
  }),
  status: z
    .looseObject({
      volumeGroupSnapshotHandle: z.string().optional(),
      /** The members at the driver. */
      volumeSnapshotInfoList: z.array(z.looseObject({ snapshotHandle: z.string().optional() })).optional(),
      error: SnapshotError.optional(),
    })
    .optional(),
});
export type GroupSnapshotContent = z.infer<typeof GroupSnapshotContent>;

export type GroupSnapshotClass = SnapshotClass;

/** The objects of groups, and their classes, in a version. */
export function groupResources(version: (typeof versions)[number] = "v1") {
  const apiVersion = `${group}/${version}`;
  return {
    groups: namespacedRef(apiVersion, "VolumeGroupSnapshot"),
    contents: clusterRef(apiVersion, "VolumeGroupSnapshotContent"),
    classes: clusterRef(apiVersion, "VolumeGroupSnapshotClass"),
  };
}

/** The kinds of groups in the version that a cluster serves. */
export interface GroupKinds {
  apiVersion: string;
  groups: ResourceClient<GroupSnapshot>;
  contents: ResourceClient<GroupSnapshotContent>;
  classes: ResourceClient<GroupSnapshotClass>;
  /** The classes of all drivers. */
  listedClasses: GroupSnapshotClass[];
}

/** The kinds of groups with the classes of all drivers; undefined if the cluster does not have the kinds. */
export async function groupKindsOf(client: KubeClient): Promise<GroupKinds | undefined> {
  for (const version of versions) {
    const refs = groupResources(version);
    const classes = client.resource(refs.classes, (value) => SnapshotClass.parse(value));
    const listed = await classes.list().catch(unlessCode("NotFound"));
    if (listed === undefined) continue;
    return {
      apiVersion: `${group}/${version}`,
      groups: client.resource(refs.groups, (value) => GroupSnapshot.parse(value)),
      contents: client.resource(refs.contents, (value) => GroupSnapshotContent.parse(value)),
      classes,
      listedClasses: listed.items,
    };
  }
  return undefined;
}
