import * as z from "zod";
import { volumeClaims } from "../../api/pod/volume-claims.ts";
import type { Pod } from "../../api/schema/pod.ts";
import { NodeTerm } from "../../api/state/target.ts";
import { RametError } from "../../base/errors.ts";
import type { KubeClient } from "../kube-client.ts";
import { ObjectMeta } from "../object.ts";
import type { ResourceClient } from "../resource-client.ts";
import { clusterRef, coreResources } from "../resource-ref.ts";

const Quantities = z.record(z.string(), z.union([z.string(), z.number()]));
const DataSource = z.looseObject({
  apiGroup: z.string().nullish(),
  kind: z.string(),
  name: z.string(),
  namespace: z.string().nullish(),
});
export type DataSource = z.infer<typeof DataSource>;

/** The spec of a claim that is to be created. Kubernetes validates the rest. */
export const ClaimSpec = z.looseObject({
  accessModes: z.array(z.string()).optional(),
  volumeMode: z.string().optional(),
  storageClassName: z.string().optional(),
  resources: z.looseObject({ requests: Quantities.optional() }).optional(),
});
export type ClaimSpec = z.infer<typeof ClaimSpec>;

/** A PersistentVolumeClaim. */
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

/** A PersistentVolume. */
export const Volume = z.looseObject({
  metadata: ObjectMeta,
  spec: z.looseObject({
    capacity: Quantities.optional(),
    csi: z.looseObject({ driver: z.string(), volumeHandle: z.string() }).optional(),
    claimRef: z
      .looseObject({ namespace: z.string().default(""), name: z.string().default(""), uid: z.string().optional() })
      .optional(),
    persistentVolumeReclaimPolicy: z.string().default("Retain"),
    nodeAffinity: z.object({ required: z.object({ nodeSelectorTerms: z.array(NodeTerm) }).nullish() }).nullish(),
  }),
  status: z.looseObject({ phase: z.string().optional() }).optional(),
});
export type Volume = z.infer<typeof Volume>;

export const StorageClass = z.looseObject({
  metadata: ObjectMeta,
  provisioner: z.string(),
  volumeBindingMode: z.string().optional(),
});
export type StorageClass = z.infer<typeof StorageClass>;

export const volumeResources = {
  drivers: clusterRef("storage.k8s.io/v1", "CSIDriver"),
  storageClasses: clusterRef("storage.k8s.io/v1", "StorageClass"),
  volumes: clusterRef("v1", "PersistentVolume"),
};

export function claimsIn(client: KubeClient): ResourceClient<Claim> {
  return client.resource(coreResources.persistentVolumeClaims, (value) => Claim.parse(value));
}

export function volumesIn(client: KubeClient): ResourceClient<Volume> {
  return client.resource(volumeResources.volumes, (value) => Volume.parse(value));
}

export function storageClassesIn(client: KubeClient): ResourceClient<StorageClass> {
  return client.resource(volumeResources.storageClasses, (value) => StorageClass.parse(value));
}

/** Where the volumes of a Pod can be attached. A claim or a volume that cannot be found limits nothing: the scheduler decides. */
export async function termsOfVolumes({ metadata, spec }: Pod, client: KubeClient): Promise<NodeTerm[][]> {
  const { namespace } = metadata;
  const terms = volumeClaims(spec.volumes ?? [], metadata.name).map(async ({ claim: name }) => {
    const claim = await claimsIn(client).find({ namespace, name }).catch(ignoreFinal);
    const volume = claim?.spec.volumeName;
    const found = volume === undefined ? undefined : await volumesIn(client).find({ name: volume }).catch(ignoreFinal);
    return found?.spec.nodeAffinity?.required?.nodeSelectorTerms;
  });
  return (await Promise.all(terms)).filter((one) => one !== undefined);
}

function ignoreFinal(error: unknown): undefined {
  if (RametError.from(error).retryable) throw error;
}
