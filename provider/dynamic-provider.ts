import type { dynamic } from "@pulumi/pulumi";
import type * as Entry from "./named-snapshot.ts";

/**
 * The providers of our dynamic resources. Pulumi writes each into the state as text, and evaluates that text as CommonJS in
 * another process, where `configure` is called before anything else. So a provider is no more than one `require` of a subpath
 * that the package exports for good; it takes over all methods of the handler from there.
 *
 * `require` is that of the process which evaluates the text: nothing may be captured from here.
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

type Configuration = Parameters<NonNullable<dynamic.ResourceProvider["configure"]>>[0];
