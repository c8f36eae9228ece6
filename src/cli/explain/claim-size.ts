import { bytesToQuantity, quantityToBytes } from "../../base/quantity.ts";
import type { Claim } from "../../kube/volumes/volumes.ts";

/** The requested size of a claim and the size that the restored snapshot needs, if that is more. */
export interface MissingSize {
  requested: string;
  needed: string;
}

/** Compares the sizes as external-provisioner does before it restores a snapshot. Pure. */
export function missingSize({ spec }: Claim, restoreSize: string | undefined): MissingSize | undefined {
  const requested = spec.resources?.requests?.["storage"];
  const [has, needs] = [bytesOf(requested), bytesOf(restoreSize)];
  if (requested === undefined || has === undefined || needs === undefined || has >= needs) return undefined;
  return { requested: String(requested), needed: bytesToQuantity(needs) };
}

function bytesOf(quantity: string | number | undefined): number | undefined {
  try {
    return quantity === undefined ? undefined : quantityToBytes(quantity);
  } catch {
    return undefined;
  }
}
