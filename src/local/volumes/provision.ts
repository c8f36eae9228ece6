import * as z from "zod";
import { RametError } from "../../base/errors.ts";
import { bytesToQuantity, quantityToBytes } from "../../base/quantity.ts";
import type { CsiClient } from "../csi/client.ts";
import { driverName } from "../csi/protocol.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import { contentSourceOf } from "./content-source.ts";
import { type Claim, type Volume, claimsIn, volumesIn } from "../../kube/volumes/volumes.ts";

export interface VolumesOptions {
  client: KubeClient;
  /** The driver of this machine. */
  driver: Pick<CsiClient, "call">;
}

/** Set before the driver makes the volume, so that a claim that is deleted meanwhile leaves none. */
export const provisioningFinalizer = "local.csi.ramet.dev/provisioning";
/** Set on each volume, so that its data is deleted before its object is. */
export const volumeFinalizer = "local.csi.ramet.dev/data";

/**
 * Makes the volume of a claim and its PersistentVolume, and binds both, as external-provisioner and the controller manager do on
 * a cluster. Repeated, it continues. The class of the claim has no effect, because the local cluster has one driver.
 * @throws RametError of the source, or of the driver
 */
export async function provision({ client, driver }: VolumesOptions, claim: Claim): Promise<Volume> {
  const { metadata } = claim;
  const claims = claimsIn(client);
  const source = await contentSourceOf(client, claim);
  if (metadata.finalizers?.includes(provisioningFinalizer) !== true)
    await claims.jsonPatch(metadata, [
      { op: "test", path: "/metadata/uid", value: metadata.uid },
      ...(metadata.finalizers === undefined ? [{ op: "add" as const, path: "/metadata/finalizers", value: [] }] : []),
      { op: "add", path: "/metadata/finalizers/-", value: provisioningFinalizer },
    ]);
  const made = Created.parse(
    await driver.call("CreateVolume", {
      name: volumeNameOf(claim),
      volumeCapabilities: capabilitiesOf(claim),
      capacityRange: { requiredBytes: requestedBytes(claim), limitBytes: 0 },
      ...(source && { volumeContentSource: source }),
    }),
  ).volume;
  const volume = await createVolume(client, claim, made);
  await bind(client, claim, volume);
  return volume;
}

/** The name of a claim's volume, and of its PersistentVolume. */
export function volumeNameOf({ metadata }: Claim): string {
  return `pvc-${metadata.uid}`;
}

/** The bytes that a claim requests. */
export function requestedBytes({ spec }: Claim): number {
  return quantityToBytes(spec.resources?.requests?.["storage"] ?? 0, "resources.requests.storage");
}

/** Binds a claim and a volume to each other. */
export async function bind(client: KubeClient, claim: Claim, volume: Volume): Promise<void> {
  const { name, namespace, uid, finalizers = [] } = claim.metadata;
  const { name: volumeName } = volume.metadata;
  const volumes = volumesIn(client);
  const { claimRef } = volume.spec;
  if (claimRef?.uid !== uid) {
    const ref = { apiVersion: "v1", kind: "PersistentVolumeClaim", namespace, name, uid };
    await volumes.mergePatch(volume.metadata, {
      metadata: { resourceVersion: volume.metadata.resourceVersion },
      spec: { claimRef: ref },
    });
  }
  if (volume.status?.phase !== "Bound")
    await volumes.mergePatch(volume.metadata, { status: { phase: "Bound" } }, { subresource: "status" });
  const claims = claimsIn(client);
  // The finalizer goes with the binding: from now on the PersistentVolume remembers the volume.
  const { metadata } = await claims.get({ namespace, name });
  if (metadata.uid !== uid) throw new RametError("Conflict", `The claim ${name} was replaced`, { retryable: true });
  await claims.mergePatch(metadata, {
    metadata: {
      resourceVersion: metadata.resourceVersion,
      annotations: {
        "pv.kubernetes.io/bind-completed": "yes",
        "pv.kubernetes.io/bound-by-controller": "yes",
        "volume.kubernetes.io/storage-provisioner": driverName,
      },
      finalizers: (metadata.finalizers ?? finalizers).filter((one) => one !== provisioningFinalizer),
    },
    spec: { volumeName },
  });
  await claims.mergePatch(
    metadata,
    { status: { phase: "Bound", accessModes: claim.spec.accessModes, capacity: volume.spec.capacity } },
    { subresource: "status" },
  );
}

const Created = z.object({
  volume: z.object({
    volumeId: z.string(),
    capacityBytes: z.number(),
    volumeContext: z.record(z.string(), z.string()),
    accessibleTopology: z.array(z.object({ segments: z.record(z.string(), z.string()) })),
  }),
});
type Made = z.infer<typeof Created>["volume"];

async function createVolume(client: KubeClient, claim: Claim, made: Made): Promise<Volume> {
  const volumes = volumesIn(client);
  const { namespace, name, uid } = claim.metadata;
  const { accessModes, storageClassName } = claim.spec;
  const manifest = {
    apiVersion: "v1",
    kind: "PersistentVolume",
    metadata: {
      name: volumeNameOf(claim),
      annotations: { "pv.kubernetes.io/provisioned-by": driverName },
      finalizers: [volumeFinalizer],
    },
    spec: {
      capacity: { storage: bytesToQuantity(made.capacityBytes) },
      accessModes,
      ...(storageClassName !== undefined && { storageClassName }),
      persistentVolumeReclaimPolicy: "Delete",
      claimRef: { apiVersion: "v1", kind: "PersistentVolumeClaim", namespace, name, uid },
      csi: { driver: driverName, volumeHandle: made.volumeId, volumeAttributes: made.volumeContext },
      nodeAffinity: { required: { nodeSelectorTerms: made.accessibleTopology.map(termOf) } },
    },
  };
  try {
    return await volumes.create(manifest);
  } catch (error) {
    if (RametError.from(error).code !== "AlreadyExists") throw error;
    return volumes.get({ name: volumeNameOf(claim) });
  }
}

function termOf({ segments }: Made["accessibleTopology"][number]): object {
  return {
    matchExpressions: Object.entries(segments).map(([key, value]) => ({ key, operator: "In", values: [value] })),
  };
}

/** The driver refuses block devices. */
function capabilitiesOf({ spec }: Claim): object[] {
  const type = spec.volumeMode === "Block" ? { block: {} } : { mount: {} };
  const modes = spec.accessModes.length === 0 ? ["ReadWriteOnce"] : spec.accessModes;
  return modes.map((mode) => ({ ...type, accessMode: { mode: csiModes[mode] ?? "UNKNOWN" } }));
}

/** As external-provisioner for a driver with SINGLE_NODE_MULTI_WRITER. */
const csiModes: Record<string, string> = {
  ReadWriteOnce: "SINGLE_NODE_MULTI_WRITER",
  ReadWriteOncePod: "SINGLE_NODE_SINGLE_WRITER",
  ReadOnlyMany: "MULTI_NODE_READER_ONLY",
  ReadWriteMany: "MULTI_NODE_MULTI_WRITER",
};
