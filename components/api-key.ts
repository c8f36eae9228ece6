import { mergeOptions, type CustomResourceOptions, type Input, type Output } from "@pulumi/pulumi";
import { ownerOf, placementOf, type PlacementArgs, typedPlacement } from "./placement.ts";
import { RametResource } from "./ramet-resource.ts";

export interface ApiKeyArgs extends PlacementArgs {
  /** The service account in the same namespace as which the requests of the key are authorized. */
  serviceAccountName: Input<string>;
  /** The limits of the key. @default those of its fields */
  limits?: Input<ApiKeyLimitsArgs>;
  /** The form of the key: as the SDKs of E2B or Sandbox0 expect it, or 48 hexadecimal digits. @default "e2b" */
  format?: Input<"e2b" | "sandbox0" | "plain">;
  /** Any text, such as a date. With another text, the key is replaced by a new one. @default none */
  rotate?: Input<string>;
  /** How long the previous key works after it was replaced, such as `"2 days"`. @default "1 hour" */
  grace?: Input<string>;
}

/** Limits of an API key, besides the quota of its namespace. A limit that is not set and has no default does not apply. */
export interface ApiKeyLimitsArgs {
  /** How many sandboxes that were created with the key can exist at the same time. */
  sandboxes?: Input<number>;
  /** How many requests per second the client API accepts from the key. @default 500 */
  requestsPerSecond?: Input<number>;
  /** How many requests and terminals of the key can be in progress. @default 1000 */
  concurrentRequests?: Input<number>;
  /** How many bytes of bodies and collected answers the client API holds for the key, such as `"64Mi"`. @default "64Mi" */
  bytesInFlight?: Input<string | number>;
  /** How many bytes the snapshots can have that were created with the key, such as `"20Gi"`. */
  snapshotBytes?: Input<string | number>;
}

/**
 * An API key for clients. It is made once, and is only in the stack's state, as a secret. A key that was revoked in the cluster is
 * replaced after `pulumi refresh`.
 */
export class ApiKey extends RametResource {
  declare readonly name: Output<string>;
  declare readonly namespace: Output<string>;
  /** The key, a secret. */
  declare readonly key: Output<string>;

  constructor(name: string, args: ApiKeyArgs, opts?: CustomResourceOptions) {
    const { format = "e2b", grace = "1 hour", ...rest } = args;
    const placement = placementOf(name, args);
    const props = { ...rest, format, grace };
    const inputs = {
      outputs: ["key"],
      dynamic: { ...props, ...placement, owner: ownerOf(name) },
      typed: { ...props, ...typedPlacement(args, placement) },
    };
    const secrets = mergeOptions(opts, { additionalSecretOutputs: ["key"] });
    super("ApiKey", name, inputs, secrets);
  }
}
