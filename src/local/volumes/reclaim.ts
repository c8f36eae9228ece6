import { driverName } from "../../csi/driver-name.ts";
import { idOf } from "../../csi/storage/ids.ts";
import { coreResources } from "../../kube/resource-ref.ts";
import { Claim, Volume, volumeResources } from "./objects.ts";
import { provisioningFinalizer, volumeFinalizer, volumeNameOf, type VolumesOptions } from "./provision.ts";

/** Of the API server: set on every volume, and removed by the controller manager on a cluster. */
const protection = "kubernetes.io/pv-protection";

/** Deletes the volume of a claim that is gone, with its data unless its policy is `Retain`. Repeated, it continues. */
export async function reclaim({ client, driver }: VolumesOptions, name: string): Promise<void> {
  const volumes = client.resource(volumeResources.volumes, (value) => Volume.parse(value));
  const volume = await volumes.find({ name });
  if (volume?.spec.csi?.driver !== driverName) return;
  const { metadata, spec, status } = volume;
  const { claimRef } = spec;
  if (claimRef?.uid !== undefined) {
    const claims = client.resource(coreResources.persistentVolumeClaims, (value) => Claim.parse(value));
    const claim = await claims.find(claimRef);
    if (claim?.metadata.uid === claimRef.uid) return;
    if (status?.phase !== "Released")
      await volumes.mergePatch(metadata, { status: { phase: "Released" } }, { subresource: "status" });
  } else if (metadata.deletionTimestamp === undefined) return;
  if (spec.persistentVolumeReclaimPolicy === "Delete" && claimRef?.uid !== undefined)
    await driver.call("DeleteVolume", { volumeId: volume.spec.csi.volumeHandle });
  else if (metadata.deletionTimestamp === undefined) return;
  await volumes.delete(metadata, { uid: metadata.uid });
  const left = await volumes.find({ name });
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
  const volumes = client.resource(volumeResources.volumes, (value) => Volume.parse(value));
  const name = volumeNameOf(claim);
  // Otherwise the volume is deleted with its PersistentVolume, when the claim is gone.
  if ((await volumes.find({ name })) === undefined)
    await driver.call("DeleteVolume", { volumeId: idOf("volume", name) });
  const finalizers = metadata.finalizers.filter((one) => one !== provisioningFinalizer);
  await client
    .resource(coreResources.persistentVolumeClaims, (value) => Claim.parse(value))
    .mergePatch(metadata, { metadata: { resourceVersion: metadata.resourceVersion, finalizers } });
}
