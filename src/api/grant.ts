import { z } from "zod";

/** A checkpoint's SHA-256 as it stands in statuses and grants: `sha256:` and 64 hex digits. */
export const Digest = z.string().regex(/^sha256:[0-9a-f]{64}$/, "must be sha256: and 64 hex digits");

/**
 * A short-lived right to read or write exactly one checkpoint. The controller makes it, a cell uses it; it holds no
 * credential that outlives it and nothing of another checkpoint.
 */
export const DirectoryGrant = z.strictObject({
  driver: z.literal("directory"),
  access: z.enum(["read", "write"]),
  namespace: z.string().min(1),
  checkpointId: z.string().min(1),
  /** The namespace's own folder in the store, as the cell sees it. */
  path: z.string().startsWith("/"),
  /** For `read`: the digest that the manifest must have. */
  manifestDigest: Digest.optional(),
  /** Milliseconds since 1970; the grant may not be used later. */
  expiresAt: z.number().int().positive(),
});
export type DirectoryGrant = z.infer<typeof DirectoryGrant>;

export const Grant = z.discriminatedUnion("driver", [DirectoryGrant]);
export type Grant = z.infer<typeof Grant>;
