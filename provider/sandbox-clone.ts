import { sandboxCloneHandler } from "./handlers/sandbox-clone/handler.ts";
import { providerOf } from "./provider-of.ts";

/** Loaded by the state of every stack with a SandboxClone; see `components/ramet-resource.ts`. */
export const provider = providerOf(sandboxCloneHandler);
