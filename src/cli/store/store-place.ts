import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { isStoreAddress, nameOfStore, parseStoreAddress } from "../../api/store/store-address.ts";
import type { StorePlace } from "../../store/store-at.ts";

/** Parses an address or a directory. */
export function storePlace(text: string): StorePlace {
  return isStoreAddress(text) ? parseStoreAddress(text) : { directory: resolve(text) };
}

/** Whether a directory does not exist. Always false for an address. */
export function isMissing(place: StorePlace): boolean {
  return "directory" in place && !existsSync(place.directory);
}

/** A readable name: a directory's path, or an address without its parameters. */
export function nameOfPlace(place: StorePlace): string {
  return "directory" in place ? place.directory : nameOfStore(place);
}
