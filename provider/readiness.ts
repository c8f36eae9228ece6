import { readinessHandler } from "./handlers/readiness/handler.ts";
import { providerOf } from "./provider-of.ts";

/** Loaded by the state of every stack with a SandboxSet or a Sandbox; see `components/ramet-resource.ts`. */
export const provider = providerOf(readinessHandler);
