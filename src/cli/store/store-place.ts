import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { parseStoreAddress } from "../../api/store-address.ts";
import type { StorePlace } from "../../store/store-at.ts";

/** The place that a person names: an address of a bucket, or else a folder. */
export function storePlace(text: string): StorePlace {
  return text.startsWith("s3:") ? parseStoreAddress(text) : { directory: resolve(text) };
}

/** Whether a place is known to be empty before anything is asked: a folder that does not exist. */
export function isMissing(place: StorePlace): boolean {
  return "directory" in place && !existsSync(place.directory);
}
