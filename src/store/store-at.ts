import type { S3Location } from "../api/store-address.ts";
import type { CheckpointStore } from "./checkpoint-store.ts";
import { directoryStore } from "./directory/store.ts";
import { objectStore } from "./objects/store.ts";
import type { Step } from "./sessions.ts";

/** Where a store is: a folder of this machine, or a part of a bucket. */
export type StorePlace = { directory: string } | S3Location;

export interface StoreAtOptions {
  /** Milliseconds since 1970. @default the system's clock */
  now?: () => number;
  onStep?: Step;
}

/** The store in a place. The client of S3 is loaded here and nowhere else: it is large, and most processes need none. */
export async function storeAt(place: StorePlace, options: StoreAtOptions = {}): Promise<CheckpointStore> {
  if ("directory" in place) return directoryStore({ root: place.directory, ...options });
  const { s3Bucket } = await import("./objects/s3.ts");
  return objectStore({ bucket: s3Bucket(place), ...options });
}
