import type { StoreLocation } from "../../src/api/store/store-address.ts";
import type { RestartableServer } from "./loopback-server.ts";

/** A server of an object store on this machine. */
export interface ObjectServer extends RestartableServer {
  endpoint: string;
  /** Environment of its clients, with credentials that permit everything. */
  environment: Record<string, string>;
  /** Creates an empty bucket and returns its location. @param endpoint another endpoint of the server, such as a proxy */
  makePlace(endpoint?: string): Promise<StoreLocation>;
}
