import { RametError } from "../../base/errors.ts";
import type { StoreHealth } from "../checkpoint-store.ts";
import { readWhole, type Bucket } from "./bucket.ts";
import { newProbeKey } from "./layout.ts";
import { requireRefusal } from "./owner.ts";

/** Tries all that a publication and its removal need. How much room there is, a bucket does not say. */
export async function probeStore(bucket: Bucket): Promise<StoreHealth> {
  const key = newProbeKey();
  const bytes = Buffer.from("probe");
  try {
    await bucket.putIfAbsent(key, bytes);
    try {
      await requireRefusal(bucket, key, bytes);
      await readWhole(bucket, key);
    } finally {
      await bucket.delete(key);
    }
    return {};
  } catch (error) {
    return { problem: RametError.from(error, `probing the store ${bucket.name}`) };
  }
}
