import { requests } from "../requests.ts";
import { type Method, method } from "../unary.ts";
import { snapshotMethods } from "./snapshots.ts";
import { type ControllerOptions, volumeMethods } from "./volumes.ts";

const capabilities = [
  "CREATE_DELETE_VOLUME",
  "LIST_VOLUMES",
  "GET_VOLUME",
  "GET_CAPACITY",
  "CREATE_DELETE_SNAPSHOT",
  "LIST_SNAPSHOTS",
  "GET_SNAPSHOT",
  "CLONE_VOLUME",
  "EXPAND_VOLUME",
  "SINGLE_NODE_MULTI_WRITER",
];

/** The Controller service. Volumes need no attachment, so it has no methods for that. */
export function controllerService(options: ControllerOptions): Record<string, Method> {
  return {
    ControllerGetCapabilities: method(requests.empty, () => ({
      capabilities: capabilities.map((type) => ({ rpc: { type } })),
    })),
    ...volumeMethods(options),
    ...snapshotMethods(options),
  };
}
