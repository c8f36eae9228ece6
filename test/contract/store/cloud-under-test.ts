import type { StoreLocation } from "../../../src/api/store/store-address.ts";
import type { ObjectServer } from "../../setup/object-server.ts";

/** In what clouds differ, and may. */
export interface CloudUnderTest {
  /** For the names of tests. */
  name: string;
  start(): Promise<ObjectServer>;
  /** The same place in a bucket that does not exist. */
  elsewhere(location: StoreLocation): StoreLocation;
  /** What it says then. */
  noBucket: string;
  /** A part of the name of a right that controllers need. */
  right: string;
  /** A variable with a key, and one that the server does not know. */
  strangeKey: { variable: string; value: string };
  /** What stands before the signature in a signed URL. */
  signature: string;
  /** What no error may say. */
  secrets: RegExp;
  largestFileBytes: number;
}
