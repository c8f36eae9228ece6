import type { StoreUsage } from "../checkpoint-store.ts";
import type { Bucket } from "./bucket.ts";
import { bytesOf, inventory, sorted } from "./inventory.ts";

/** What a namespace takes: nothing is shared. */
export async function usageOf(bucket: Bucket, namespace: string): Promise<StoreUsage> {
  const usage: StoreUsage = { checkpoints: 0, contents: 0, contentBytes: 0, sharedBytes: 0, stagingBytes: 0 };
  for (const holding of (await inventory(bucket, namespace)).checkpoints) {
    const { files, rests } = await sorted(bucket, holding);
    if (holding.publication !== undefined) usage.checkpoints += 1;
    usage.contents += files.length;
    usage.contentBytes += bytesOf(files);
    usage.stagingBytes += bytesOf(rests.flatMap((rest) => rest.files));
  }
  return usage;
}
