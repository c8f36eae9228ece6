import * as z from "zod";

/** A checkpoint's SHA-256 as it stands in statuses and grants: `sha256:` and 64 hex digits. */
export const Digest = z.string().regex(/^sha256:[0-9a-f]{64}$/, "must be sha256: and 64 hex digits");

/** The one checkpoint that a grant is for, and until when. */
const scope = {
  namespace: z.string().min(1),
  checkpointId: z.string().min(1),
  /** Milliseconds since 1970; the grant may not be used later. */
  expiresAt: z.number().int().positive(),
};

/** Of a store that is a folder which cells have too. */
export const DirectoryGrant = z.strictObject({
  driver: z.literal("directory"),
  access: z.enum(["read", "write"]),
  ...scope,
  /** The namespace's own folder in the store, as the cell sees it. */
  path: z.string().startsWith("/"),
  /** For `read`: the digest that the manifest must have. */
  manifestDigest: Digest.optional(),
});
export type DirectoryGrant = z.infer<typeof DirectoryGrant>;

/**
 * One request to an object store that the controller has signed: whoever has the URL may make it until it expires. So it is a
 * secret, and stands in no log and no message. Its method is known from where it stands; its headers must be sent as they are.
 */
export const SignedRequest = z.strictObject({ url: z.url(), headers: z.record(z.string(), z.string()) });
export type SignedRequest = z.infer<typeof SignedRequest>;

/** To read a checkpoint from an object store. */
export const ObjectsReadGrant = z.strictObject({
  driver: z.literal("objects"),
  access: z.literal("read"),
  ...scope,
  /** The digest that the manifest must have. */
  manifestDigest: Digest,
  /** GET: what is published under the id. */
  publication: SignedRequest,
  /** GET: the files, in the order in which the manifest has them. None where nothing was published. */
  files: z.array(SignedRequest),
});
export type ObjectsReadGrant = z.infer<typeof ObjectsReadGrant>;

/** To write a checkpoint into an object store: for one attempt, which nobody else makes. */
export const ObjectsWriteGrant = z.strictObject({
  driver: z.literal("objects"),
  access: z.literal("write"),
  ...scope,
  /** The attempt that these files are of. */
  attempt: z.string().min(1),
  /** GET: what is published under the id already. */
  publication: SignedRequest,
  /** PUT of the publication, which must find none. */
  publish: SignedRequest,
  /** PUT of the first file, the second …, in the order of their names; each must find none. */
  files: z.array(SignedRequest).min(1),
  /** What one file may have at most. */
  largestFileBytes: z.number().int().positive(),
});
export type ObjectsWriteGrant = z.infer<typeof ObjectsWriteGrant>;

/**
 * A short-lived right to read or write exactly one checkpoint. The controller makes it, a cell uses it; it holds no
 * credential that outlives it and nothing of another checkpoint.
 */
export const Grant = z.discriminatedUnion("driver", [
  DirectoryGrant,
  z.discriminatedUnion("access", [ObjectsReadGrant, ObjectsWriteGrant]),
]);
export type Grant = z.infer<typeof Grant>;
