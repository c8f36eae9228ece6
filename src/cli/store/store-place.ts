import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { isStoreAddress, nameOfStore, parseStoreAddress } from "../../api/store/store-address.ts";
import type { StorePlace } from "../../store/store-at.ts";

/** The place that a person names: an address, or else a folder. */
export function storePlace(text: string): StorePlace {
  return isStoreAddress(text) ? parseStoreAddress(text) : { directory: resolve(text) };
}

/** Whether a place is known to be empty before anything is asked: a folder that does not exist. */
export function isMissing(place: StorePlace): boolean {
  return "directory" in place && !existsSync(place.directory);
}

/** For people: a folder's path, or an address without what only its client needs. */
export function nameOfPlace(place: StorePlace): string {
  return "directory" in place ? place.directory : nameOfStore(place);
}
