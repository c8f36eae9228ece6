import type { CheckpointRef } from "../checkpoint-id.ts";
import type { Removal } from "../checkpoint-store.ts";
import type { Step } from "../sessions.ts";
import type { Bucket, StoredObject } from "./bucket.ts";
import { bytesOf, inventoryOf, sorted } from "./inventory.ts";
import { publicationKey } from "./layout.ts";

/**
 * Takes the publication away, with which the checkpoint is gone as a whole, then its files. What a crash leaves after that is a
 * rest, and goes by a sweep.
 */
export async function removeCheckpoint(bucket: Bucket, ref: CheckpointRef, step: Step): Promise<Removal> {
  const holding = await inventoryOf(bucket, ref);
  if (holding?.publication === undefined) return { removed: false, freedBytes: 0 };
  const { files } = await sorted(bucket, holding);
  await bucket.delete(publicationKey(ref));
  await step("unpublished");
  await deleteAll(bucket, files, step);
  return { removed: true, freedBytes: bytesOf(files) };
}

export async function deleteAll(bucket: Bucket, objects: readonly StoredObject[], step: Step): Promise<void> {
  for (const { key } of objects) {
    await bucket.delete(key);
    await step("deleted");
  }
}
