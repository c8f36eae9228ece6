import { apiKeyHandler } from "./handlers/api-key/handler.ts";
import { providerOf } from "./provider-of.ts";

/** Loaded by the state of every stack with an ApiKey; see `dynamic-provider.ts`. */
export const provider = providerOf(apiKeyHandler);
