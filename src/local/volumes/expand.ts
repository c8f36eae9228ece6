import * as z from "zod";
import { bytesToQuantity, quantityToBytes } from "../../base/quantity.ts";
import { type Claim, type Volume, claimsIn, volumesIn } from "../../kube/volumes/volumes.ts";
import { requestedBytes, type VolumesOptions } from "./provision.ts";

/** Makes the volume of a bound claim as large as the claim requests now, as external-resizer does on a cluster. */
export async function expand({ client, driver }: VolumesOptions, claim: Claim, volume: Volume): Promise<void> {
  const requiredBytes = requestedBytes(claim);
  const has = quantityToBytes(claim.status?.capacity?.["storage"] ?? 0);
  if (requiredBytes <= has || volume.spec.csi === undefined) return;
  const { volumeHandle: volumeId } = volume.spec.csi;
  const request = { volumeId, capacityRange: { requiredBytes, limitBytes: 0 } };
  const { capacityBytes } = Expanded.parse(await driver.call("ControllerExpandVolume", request));
  const capacity = { storage: bytesToQuantity(capacityBytes) };
  await volumesIn(client).mergePatch(volume.metadata, { spec: { capacity } });
  await claimsIn(client).mergePatch(claim.metadata, { status: { capacity } }, { subresource: "status" });
}

const Expanded = z.object({ capacityBytes: z.number() });
