import type { dynamic } from "@pulumi/pulumi";
import type * as Entry from "./named-snapshot.ts";

/**
 * The providers of the dynamic resources. Pulumi serializes each one into the state and evaluates that text as CommonJS
 * in another process, where it calls `configure` first. So a provider is a single `require` of a subpath that the
 * package must always export, and it copies all methods of the handler from there.
 *
 * `require` is the function of the evaluating process. Do not capture anything from this module.
 */
export const namedSnapshotProvider = {
  configure(request: Configuration) {
    // eslint-disable-next-line @typescript-eslint/no-require-imports
    Object.assign(this, (require("ramet/provider/named-snapshot") as typeof Entry).provider(request.config));
  },
} as dynamic.ResourceProvider;

export const sandboxCloneProvider = {
  configure(request: Configuration) {
    // eslint-disable-next-line @typescript-eslint/no-require-imports
    Object.assign(this, (require("ramet/provider/sandbox-clone") as typeof Entry).provider(request.config));
  },
} as dynamic.ResourceProvider;

export const apiKeyProvider = {
  configure(request: Configuration) {
    // eslint-disable-next-line @typescript-eslint/no-require-imports
    Object.assign(this, (require("ramet/provider/api-key") as typeof Entry).provider(request.config));
  },
} as dynamic.ResourceProvider;

export const readinessProvider = {
  configure(request: Configuration) {
    // eslint-disable-next-line @typescript-eslint/no-require-imports
    Object.assign(this, (require("ramet/provider/readiness") as typeof Entry).provider(request.config));
  },
} as dynamic.ResourceProvider;

type Configuration = Parameters<NonNullable<dynamic.ResourceProvider["configure"]>>[0];
