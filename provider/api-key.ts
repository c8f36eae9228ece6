import { apiKeyHandler } from "./handlers/api-key/handler.ts";
import { providerOf } from "./provider-of.ts";

/** Loaded by the state of every stack with an ApiKey; see `components/ramet-resource.ts`. */
export const provider = providerOf(apiKeyHandler);
