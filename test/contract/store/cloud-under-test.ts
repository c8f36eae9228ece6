import type { StoreLocation } from "../../../src/api/store/store-address.ts";
import type { ObjectServer } from "../../setup/object-server.ts";

/** The allowed differences between clouds. */
export interface CloudUnderTest {
  /** Name for test titles. */
  name: string;
  start(): Promise<ObjectServer>;
  /** Returns the same location in a bucket that does not exist. */
  elsewhere(location: StoreLocation): StoreLocation;
  /** Error code of a missing bucket. */
  noBucket: string;
  /** Name of a permission or role that controllers need. */
  permission: string;
  /** A credential variable, and a value that the server does not know. */
  unknownKey: { variable: string; value: string };
  /** Text before the signature in a signed URL. */
  signature: string;
  /** Matches texts that no error may contain. */
  secrets: RegExp;
}
