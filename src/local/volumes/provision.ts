import * as z from "zod";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import { bytesToQuantity, quantityToBytes } from "../../base/quantity.ts";
import type { CsiClient } from "../csi/client.ts";
import { driverName } from "../csi/unary.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import { type Claim, type Volume, claimsIn, volumesIn, type DataSource } from "../../kube/volumes/volumes.ts";
import { type SnapshotContent, snapshotContentsIn, snapshotsIn } from "../../kube/volumes/snapshots.ts";

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
      ...defined({ volumeContentSource: source }),
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
      ...defined({ storageClassName }),
      persistentVolumeReclaimPolicy: "Delete",
      claimRef: { apiVersion: "v1", kind: "PersistentVolumeClaim", namespace, name, uid },
      csi: { driver: driverName, volumeHandle: made.volumeId, volumeAttributes: made.volumeContext },
      nodeAffinity: { required: { nodeSelectorTerms: made.accessibleTopology.map(termOf) } },
    },
  };
  return volumes.ensure(manifest);
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

/**
 * The source of a claim's content as CSI's CreateVolume takes it, or undefined for an empty volume. As external-provisioner, it uses
 * only a snapshot that is ready, and a content of this driver that refers to the snapshot in turn.
 * @throws RametError `Conflict` if the source is not ready yet; `NotFound`, `NotSupported`, `Forbidden`
 */
async function contentSourceOf(client: KubeClient, claim: Claim): Promise<object | undefined> {
  const { namespace = "" } = claim.metadata;
  const source = claim.spec.dataSourceRef ?? claim.spec.dataSource;
  if (source === undefined || source === null) return undefined;
  if (source.namespace !== undefined && source.namespace !== null && source.namespace !== namespace)
    throw new RametError("Forbidden", `${failed}: its source is in the namespace ${source.namespace}`, {
      hint: `Use a source in the namespace ${namespace}`,
    });
  switch (`${source.apiGroup ?? ""}/${source.kind}`) {
    case "snapshot.storage.k8s.io/VolumeSnapshot":
      return { snapshot: { snapshotId: await snapshotOf(client, namespace, source) } };
    case "/PersistentVolumeClaim":
      return { volume: { volumeId: await volumeOf(client, namespace, source) } };
    default:
      throw new RametError("NotSupported", `${failed}: its source is a ${source.kind}`, {
        hint: "Use a VolumeSnapshot or a PersistentVolumeClaim",
      });
  }
}

const failed = "Creating the volume failed";

async function snapshotOf(client: KubeClient, namespace: string, { name }: DataSource): Promise<string> {
  const what = `the VolumeSnapshot ${name}`;
  const snapshot = await snapshotsIn(client).find({ namespace, name });
  if (snapshot === undefined) throw new RametError("NotFound", `${failed}: ${what} does not exist`);
  const { metadata, status } = snapshot;
  if (metadata.deletionTimestamp !== undefined) throw new RametError("Conflict", `${failed}: ${what} is being deleted`);
  const contentName = status?.boundVolumeSnapshotContentName;
  if (contentName === undefined || status?.readyToUse !== true) throw notReady(`${what} is not ready`);
  const content = await snapshotContentsIn(client).find({ name: contentName });
  if (content === undefined) throw notReady(`the content of ${what} does not exist`);
  return handleOf(content, { namespace, name, uid: metadata.uid }, what);
}

function handleOf(
  { spec, status }: SnapshotContent,
  snapshot: { namespace: string; name: string; uid: string },
  what: string,
): string {
  const { namespace, name, uid } = spec.volumeSnapshotRef;
  // Both sides must refer to each other: a user could name the content of another namespace.
  if (namespace !== snapshot.namespace || name !== snapshot.name || uid !== snapshot.uid)
    throw new RametError("Forbidden", `${failed}: the content of ${what} is bound to another snapshot`);
  if (spec.driver !== driverName)
    throw new RametError("InvalidArgument", `${failed}: ${what} is of the driver ${spec.driver}`);
  if (status?.snapshotHandle === undefined || status.readyToUse !== true)
    throw notReady(`the content of ${what} is not ready`);
  return status.snapshotHandle;
}

async function volumeOf(client: KubeClient, namespace: string, { name }: DataSource): Promise<string> {
  const claim = await claimsIn(client).find({ namespace, name });
  if (claim === undefined) throw new RametError("NotFound", `${failed}: the claim ${name} does not exist`);
  const { volumeName } = claim.spec;
  if (claim.status?.phase !== "Bound") throw notReady(`the claim ${name} is not bound`);
  const volume = volumeName === undefined ? undefined : await volumesIn(client).find({ name: volumeName });
  if (volume?.spec.csi?.driver !== driverName || volume.spec.claimRef?.uid !== claim.metadata.uid)
    throw new RametError("NotSupported", `${failed}: the volume of the claim ${name} is none of this driver`);
  return volume.spec.csi.volumeHandle;
}

function notReady(why: string): RametError {
  return new RametError("Conflict", `${failed}: ${why}`, { retryable: true });
}
