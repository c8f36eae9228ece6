import type { StoreLocation } from "../api/store/store-address.ts";
import { type Clock, systemClock } from "../base/clock.ts";
import type { CheckpointStore } from "./checkpoint-store.ts";
import { directoryStore } from "./directory/store.ts";
import type { Bucket } from "./objects/bucket.ts";
import { objectStore } from "./objects/store.ts";
import type { Step } from "./sessions.ts";

/** The location of a store: a directory, or a bucket with a prefix. */
export type StorePlace = { directory: string } | StoreLocation;

export interface StoreAtOptions {
  /** @default the system's clock */
  clock?: Clock;
  onStep?: Step;
  /** Whether restores from a directory hash all content, as those from buckets always do. @default false */
  verifyRestores?: boolean;
}

/** Opens the store at a location. */
export async function storeAt(place: StorePlace, options: StoreAtOptions = {}): Promise<CheckpointStore> {
  if ("directory" in place) return directoryStore({ root: place.directory, ...options });
  return objectStore({ bucket: await bucketAt(place, options.clock ?? systemClock), ...options });
}

/** Imports the cloud clients lazily, because they are large and most processes do not need them. */
async function bucketAt(location: StoreLocation, clock: Clock): Promise<Bucket> {
  switch (location.driver) {
    case "s3":
      return (await import("./objects/s3/s3-bucket.ts")).s3Bucket(location, { clock });
    case "gcs":
      return (await import("./objects/gcs/gcs-bucket.ts")).gcsBucket(location, { clock });
    case "azure":
      return (await import("./objects/azure/azure-bucket.ts")).azureBucket(location, { clock });
  }
}
