import type { S3Location } from "../api/store-address.ts";
import type { CheckpointStore } from "./checkpoint-store.ts";
import { objectStore, type ObjectStoreOptions } from "./objects/store.ts";

/** A store in S3. Its client is loaded here and nowhere else: it is large, and most processes need none. */
export async function openS3Store(
  location: S3Location,
  options: Omit<ObjectStoreOptions, "bucket"> = {},
): Promise<CheckpointStore> {
  const { s3Bucket } = await import("./objects/s3.ts");
  return objectStore({ bucket: s3Bucket(location), ...options });
}
