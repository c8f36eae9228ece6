import * as z from "zod";
import { quantityToBytes } from "../../base/quantity.ts";
import { coreResources } from "../../kube/resource-ref.ts";
import { Claim, Volume, volumeResources } from "./objects.ts";
import { requestedBytes, type VolumesOptions } from "./provision.ts";
import { quantityOf } from "./quantity-of.ts";

/** Makes the volume of a bound claim as large as the claim requests now, as external-resizer does on a cluster. */
export async function expand({ client, driver }: VolumesOptions, claim: Claim, volume: Volume): Promise<void> {
  const requiredBytes = requestedBytes(claim);
  const has = quantityToBytes(claim.status?.capacity?.["storage"] ?? 0);
  if (requiredBytes <= has || volume.spec.csi === undefined) return;
  const { volumeHandle: volumeId } = volume.spec.csi;
  const request = { volumeId, capacityRange: { requiredBytes, limitBytes: 0 } };
  const { capacityBytes } = Expanded.parse(await driver.call("ControllerExpandVolume", request));
  const capacity = { storage: quantityOf(capacityBytes) };
  await client
    .resource(volumeResources.volumes, (value) => Volume.parse(value))
    .mergePatch(volume.metadata, { spec: { capacity } });
  await client
    .resource(coreResources.persistentVolumeClaims, (value) => Claim.parse(value))
    .mergePatch(claim.metadata, { status: { capacity } }, { subresource: "status" });
}

const Expanded = z.object({ capacityBytes: z.number() });
