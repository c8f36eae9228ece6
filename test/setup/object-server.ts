import type { StoreLocation } from "../../src/api/store/store-address.ts";

/** A server of an object store on this machine. */
export interface ObjectServer {
  endpoint: string;
  /** Environment of its clients, with credentials that permit everything. */
  environment: Record<string, string>;
  /** Creates an empty bucket and returns its location. @param endpoint another endpoint of the server, such as a proxy */
  makePlace(endpoint?: string): Promise<StoreLocation>;
  /** Kills the server: it refuses connections afterwards. Keeps its data. */
  kill(): Promise<void>;
  /** Starts the server again on its port with its data. */
  restart(): Promise<void>;
  /** Stops the server and removes its data. */
  stop(): Promise<void>;
}
