import { z } from "zod";
import { Endpoint, Prefix, type StoreScheme } from "./store-scheme.ts";

/** A bucket of Google Cloud Storage, and the part of it that is the store. */
export const GcsLocation = z.strictObject({
  driver: z.literal("gcs"),
  bucket: z.string().regex(/^[a-z0-9][-_.a-z0-9]{1,220}[a-z0-9]$/, "must be a bucket's name"),
  /** Absent: the store has the whole bucket. */
  prefix: Prefix.optional(),
  /** Of an emulator, or of a cloud of its own. @default Google's */
  endpoint: Endpoint.optional(),
});
export type GcsLocation = z.infer<typeof GcsLocation>;

/** `gs://bucket/prefix?endpoint=…`, of which all but the bucket may be left out. */
export const gcsScheme: StoreScheme<GcsLocation> = {
  scheme: "gs",
  host: "bucket",
  parameters: { endpoint: "endpoint" },
  location: GcsLocation,
  called: "the store in Google Cloud Storage",
  example: "gs://bucket/prefix",
};
