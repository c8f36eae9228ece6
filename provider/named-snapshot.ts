import { namedSnapshotHandler } from "./handlers/named-snapshot/handler.ts";
import { providerOf } from "./provider-of.ts";

/** Loaded by the state of every stack with a NamedSnapshot; see `components/ramet-resource.ts`. */
export const provider = providerOf(namedSnapshotHandler);
