import { z } from "zod";
import { Endpoint, Prefix, type StoreScheme } from "./store-scheme.ts";

/** A bucket of S3, or of a store that speaks its protocol, and the part of it that is the store. */
export const S3Location = z.strictObject({
  driver: z.literal("s3"),
  bucket: z.string().regex(/^[a-z0-9][-.a-z0-9]{1,61}[a-z0-9]$/, "must be a bucket's name"),
  /** Absent: the store has the whole bucket. */
  prefix: Prefix.optional(),
  /** @default what the environment says; `us-east-1` where an endpoint is given */
  region: z
    .string()
    .regex(/^[a-z0-9][-a-z0-9]*$/, "must be a region's name")
    .optional(),
  /** Of a store that is not Amazon's. */
  endpoint: Endpoint.optional(),
  /** The bucket stands in the path of URLs and not in their host. @default whether an endpoint is given */
  pathStyle: z.boolean().optional(),
});
export type S3Location = z.infer<typeof S3Location>;

/** `s3://bucket/prefix?region=…&endpoint=…&path-style=true`, of which all but the bucket may be left out. */
export const s3Scheme: StoreScheme<S3Location> = {
  scheme: "s3",
  host: "bucket",
  parameters: { region: "region", endpoint: "endpoint", "path-style": "pathStyle" },
  location: S3Location,
  called: "the store in S3",
  example: "s3://bucket/prefix?region=eu-central-1, and endpoint=https://… where the store is not Amazon's",
};
