import * as z from "zod";
import { Digest } from "../schema/digest.ts";
import { defaultKeyLimits } from "../schema/default-key-limits.ts";
import { defineKind, rametGroup } from "../schema/kind.ts";
import { Time } from "../schema/metadata.ts";
import { atomicList, int32, withRules } from "../schema/rules.ts";

/** One value of the key. Only its digest is stored, so nobody can read the key out of the cluster. */
const KeyDigest = z.object({
  digest: Digest.describe(
    "SHA-256 of the object's namespace and name and the key, so a digest accepts nothing in another object.",
  ),
  expiresAt: Time.optional().describe("When this value of the key stops working. Default: never."),
});

/** More than a rotation needs: the new value, and the previous ones until they expire. */
export const mostDigests = 4;

const KeyDigests = withRules(atomicList(KeyDigest).min(1).max(mostDigests), [
  {
    cel: "self.all(one, self.exists_one(other, other.digest == one.digest))",
    message: "digests must not list a digest twice",
    holds: (digests) => new Set(digests.map(({ digest }) => digest)).size === digests.length,
  },
]).describe("The digests of the accepted values of the key: one, and during a rotation also the previous ones.");

const bytesPattern = "^[0-9]{1,16}([.][0-9]{1,16})?([KMGTPE]i|[kMGTPE])?$";

/** A number of bytes: a quantity as in a Pod's resources, without signs and exponents. */
const Bytes = z
  .union([z.int().min(0), z.string().regex(new RegExp(bytesPattern), "must be a quantity like 20Gi")])
  .meta({
    crd: {
      "x-kubernetes-int-or-string": true,
      anyOf: [{ type: "integer" }, { type: "string" }],
      pattern: bytesPattern,
      minimum: 0,
      maximum: Number.MAX_SAFE_INTEGER,
    },
  });

const count = (least: number) => int32.min(least).max(1_000_000).optional();

const KeyLimits = z
  .object({
    sandboxes: count(0).describe("How many sandboxes that were created with the key can exist at the same time."),
    requestsPerSecond: count(1).describe(
      `How many requests per second the client API accepts from the key. Default: ${defaultKeyLimits.requestsPerSecond}.`,
    ),
    concurrentRequests: count(1).describe(
      `How many requests and terminals of the key can be in progress. Default: ${defaultKeyLimits.concurrentRequests}.`,
    ),
    bytesInFlight: Bytes.optional().describe(
      `How many bytes of bodies and collected answers the client API holds for the key. Default: ${defaultKeyLimits.bytesInFlight}.`,
    ),
    snapshotBytes: Bytes.optional().describe("How many bytes the snapshots can have that were created with the key."),
  })
  .describe(
    "Limits of the key, besides the quota of its namespace. Without a default, what is not set is not limited.",
  );

export const ApiKeySpec = z.object({
  serviceAccountName: z
    .string()
    .max(253)
    .regex(
      /^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/,
      "must be the name of a service account",
    )
    .describe("The service account of the same namespace as which the key's requests are authorized."),
  digests: KeyDigests,
  limits: KeyLimits.optional(),
});
export type ApiKeySpec = z.infer<typeof ApiKeySpec>;

export const apiKeyKind = defineKind({
  group: rametGroup,
  kind: "ApiKey",
  plural: "apikeys",
  singular: "apikey",
  shortNames: ["ak"],
  description: "A key with which clients call the client API as a service account.",
  spec: ApiKeySpec,
  columns: [
    { name: "Service account", type: "string", jsonPath: ".spec.serviceAccountName" },
    { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" },
  ],
});
export const ApiKey = apiKeyKind.object;
export type ApiKey = z.infer<typeof ApiKey>;
export const ApiKeyManifest = apiKeyKind.manifest;
export type ApiKeyManifest = z.input<typeof ApiKeyManifest>;
