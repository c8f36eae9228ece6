import type { StoreLocation } from "../../src/api/store/store-address.ts";

/** A server of an object store, of this machine alone. */
export interface ObjectServer {
  endpoint: string;
  /** What clients of it have in their environment: who they are, and that they may do everything. */
  environment: Record<string, string>;
  /** A new, empty bucket, whole; reached by another `endpoint`, where one is given. */
  makePlace(endpoint?: string): Promise<StoreLocation>;
  /** It ends at once: connections to it are refused then. What it has stored stays. */
  kill(): Promise<void>;
  /** On its port again, with what it had. */
  restart(): Promise<void>;
  /** Ends it and removes what it has stored. */
  stop(): Promise<void>;
}
