import * as z from "zod";
import { unlessCode } from "../../base/errors.ts";
import type { KubeClient } from "../kube-client.ts";
import { ObjectMeta } from "../object.ts";
import type { ResourceClient } from "../resource-client.ts";
import { clusterRef, namespacedRef } from "../resource-ref.ts";
import { SnapshotClass, SnapshotError } from "./snapshots.ts";

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
    volumeGroupSnapshotRef: z.looseObject({
      namespace: z.string().optional(),
      name: z.string().optional(),
      uid: z.string().optional(),
    }),
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
