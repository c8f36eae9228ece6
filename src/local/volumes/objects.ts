import * as z from "zod";
import type { KubeClient } from "../../kube/kube-client.ts";
import { ObjectMeta } from "../../kube/object.ts";
import type { ResourceClient } from "../../kube/resource-client.ts";
import { coreResources, type ResourceRef } from "../../kube/resource-ref.ts";

const Quantities = z.record(z.string(), z.union([z.string(), z.number()]));
const DataSource = z.looseObject({
  apiGroup: z.string().nullish(),
  kind: z.string(),
  name: z.string(),
  namespace: z.string().nullish(),
});
export type DataSource = z.infer<typeof DataSource>;

/** A PersistentVolumeClaim as the local cluster reads it. */
export const Claim = z.looseObject({
  metadata: ObjectMeta,
  spec: z.looseObject({
    accessModes: z.array(z.string()).default([]),
    volumeMode: z.string().optional(),
    storageClassName: z.string().optional(),
    volumeName: z.string().optional(),
    resources: z.looseObject({ requests: Quantities.optional(), limits: Quantities.optional() }).optional(),
    dataSource: DataSource.nullish(),
    dataSourceRef: DataSource.nullish(),
  }),
  status: z.looseObject({ phase: z.string().optional(), capacity: Quantities.optional() }).optional(),
});
export type Claim = z.infer<typeof Claim>;

/** A PersistentVolume as the local cluster reads it. */
export const Volume = z.looseObject({
  metadata: ObjectMeta,
  spec: z.looseObject({
    capacity: Quantities.optional(),
    csi: z.looseObject({ driver: z.string(), volumeHandle: z.string() }).optional(),
    claimRef: z
      .looseObject({ namespace: z.string().default(""), name: z.string().default(""), uid: z.string().optional() })
      .optional(),
    persistentVolumeReclaimPolicy: z.string().default("Retain"),
  }),
  status: z.looseObject({ phase: z.string().optional() }).optional(),
});
export type Volume = z.infer<typeof Volume>;

export const Snapshot = z.looseObject({
  metadata: ObjectMeta,
  status: z
    .looseObject({ boundVolumeSnapshotContentName: z.string().optional(), readyToUse: z.boolean().optional() })
    .optional(),
});

/** Without `status.creationTime`, whose nanoseconds are not exact in JSON. */
export const SnapshotContent = z.looseObject({
  metadata: ObjectMeta,
  spec: z.looseObject({
    driver: z.string(),
    volumeSnapshotRef: z.looseObject({
      namespace: z.string().optional(),
      name: z.string().optional(),
      uid: z.string().optional(),
    }),
  }),
  status: z.looseObject({ snapshotHandle: z.string().optional(), readyToUse: z.boolean().optional() }).optional(),
});

const snapshotGroup = "snapshot.storage.k8s.io";

export const volumeResources = {
  drivers: { group: "storage.k8s.io", version: "v1", plural: "csidrivers", kind: "CSIDriver", namespaced: false },
  volumes: { group: "", version: "v1", plural: "persistentvolumes", kind: "PersistentVolume", namespaced: false },
  snapshots: {
    group: snapshotGroup,
    version: "v1",
    plural: "volumesnapshots",
    kind: "VolumeSnapshot",
    namespaced: true,
  },
  snapshotContents: {
    group: snapshotGroup,
    version: "v1",
    plural: "volumesnapshotcontents",
    kind: "VolumeSnapshotContent",
    namespaced: false,
  },
} as const satisfies Record<string, ResourceRef>;

export function claimsIn(client: KubeClient): ResourceClient<Claim> {
  return client.resource(coreResources.persistentVolumeClaims, (value) => Claim.parse(value));
}

export function volumesIn(client: KubeClient): ResourceClient<Volume> {
  return client.resource(volumeResources.volumes, (value) => Volume.parse(value));
}
