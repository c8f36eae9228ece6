import { driverName } from "../csi/protocol.ts";
import { idOf } from "../csi/storage/records.ts";
import type { ResourceClient } from "../../kube/resource-client.ts";
import { type Claim, type Volume, claimsIn, volumesIn } from "../../kube/volumes/volumes.ts";
import { provisioningFinalizer, volumeFinalizer, volumeNameOf, type VolumesOptions } from "./provision.ts";

/** The API server's finalizer: set on every volume, and removed by the controller manager on a cluster. */
const protection = "kubernetes.io/pv-protection";

/** Deletes the volume of a claim that is gone, with its data unless its policy is `Retain`. Repeated, it continues. */
export async function reclaim(options: VolumesOptions, name: string): Promise<void> {
  const volumes = volumesIn(options.client);
  const volume = await volumes.find({ name });
  if (volume?.spec.csi?.driver !== driverName || (await isClaimed(options, volume))) return;
  const { volumeHandle: volumeId } = volume.spec.csi;
  const { metadata } = volume;
  const { uid } = metadata;
  const isUnneeded = isReleased(volume) && volume.spec.persistentVolumeReclaimPolicy === "Delete";
  if (isReleased(volume) && volume.status?.phase !== "Released")
    await volumes.mergePatch(metadata, { status: { phase: "Released" } }, { subresource: "status" });
  if (isUnneeded) {
    await options.driver.call("DeleteVolume", { volumeId });
    await volumes.delete(metadata, { uid });
  }
  if (isUnneeded || metadata.deletionTimestamp !== undefined) await release(volumes, volume);
}

/** Whether the volume had a claim, which is known to be gone. */
function isReleased({ spec }: Volume): boolean {
  return spec.claimRef?.uid !== undefined;
}

async function isClaimed({ client }: VolumesOptions, { spec }: Volume): Promise<boolean> {
  const { claimRef } = spec;
  if (claimRef?.uid === undefined) return false;
  const claims = claimsIn(client);
  return (await claims.find(claimRef))?.metadata.uid === claimRef.uid;
}

/** Lets a deleted object go. */
async function release(volumes: ResourceClient<Volume>, { metadata }: Volume): Promise<void> {
  const left = await volumes.find({ name: metadata.name });
  if (left?.metadata.uid !== metadata.uid) return;
  const finalizers = (left.metadata.finalizers ?? []).filter((one) => one !== protection && one !== volumeFinalizer);
  await volumes.mergePatch(left.metadata, {
    metadata: { resourceVersion: left.metadata.resourceVersion, finalizers },
  });
}

/** Deletes what was made for a claim that is deleted before it was bound, and then lets the claim go. */
export async function abandon({ client, driver }: VolumesOptions, claim: Claim): Promise<void> {
  const { metadata } = claim;
  if (metadata.finalizers?.includes(provisioningFinalizer) !== true) return;
  const volumes = volumesIn(client);
  const name = volumeNameOf(claim);
  // Otherwise the volume is deleted with its PersistentVolume, when the claim is gone.
  if ((await volumes.find({ name })) === undefined)
    await driver.call("DeleteVolume", { volumeId: idOf("volume", name) });
  const finalizers = metadata.finalizers.filter((one) => one !== provisioningFinalizer);
  await claimsIn(client).mergePatch(metadata, { metadata: { resourceVersion: metadata.resourceVersion, finalizers } });
}
