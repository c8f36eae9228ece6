import * as z from "zod";
import { Digest } from "../schema/digest.ts";

/** The data key of a checkpoint, encrypted with a key of the installation. It is a part of the manifest, and no secret. */
export const Envelope = z.strictObject({
  algorithm: z.literal("AES-256-GCM"),
  /** The Secret in `ramet-system` with the key, and the name of the key in it. */
  secret: z.string().min(1).max(253),
  key: z.string().min(1).max(253),
  /** Base64 of the nonce, the encrypted data key and the tag. */
  wrapped: z.base64().max(256),
});
export type Envelope = z.infer<typeof Envelope>;

/** A checkpoint whose files are a layer: what they are does not change, because the digest of its manifest names them. */
export const LayerRef = z.strictObject({
  checkpointId: z
    .string()
    .max(200)
    // A part of a path on the node.
    .regex(/^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$/, "is no checkpoint id"),
  manifestDigest: Digest,
  sizeBytes: z.number().int().min(0),
});
export type LayerRef = z.infer<typeof LayerRef>;

/** The most layers below the root of one sandbox. Overlayfs names them in one page of mount options. */
export const mostLayers = 16;

/** How the content of a checkpoint is encrypted. The data key is a secret: never log it or put it into a message. */
export const GrantEncryption = z.strictObject({
  /** Base64 of 32 bytes. */
  dataKey: z.base64().length(44),
  envelope: Envelope,
});
export type GrantEncryption = z.infer<typeof GrantEncryption>;

/** The checkpoint of a grant, its expiry, and its encryption if it has one. */
const scope = {
  encryption: GrantEncryption.optional(),
  namespace: z.string().min(1),
  checkpointId: z.string().min(1),
  /** The grant's expiry, in milliseconds since 1970. */
  expiresAt: z.number().int().positive(),
};

/** A grant for a store in a directory that cells have access to. */
export const DirectoryGrant = z.strictObject({
  driver: z.literal("directory"),
  access: z.enum(["read", "write"]),
  ...scope,
  /** The namespace's directory in the store: a path in the cell. */
  path: z.string().startsWith("/"),
  /** For `read`: the required digest of the manifest. */
  manifestDigest: Digest.optional(),
  /** For `read`: hash all content, also if it looks unchanged. */
  verify: z.literal(true).optional(),
});
export type DirectoryGrant = z.infer<typeof DirectoryGrant>;

/**
 * A request to an object store that the controller has signed: the URL gives access until it expires. It is a secret: never log
 * it or put it into a message. The field determines its method. Its headers must be sent unchanged.
 */
export const SignedRequest = z.strictObject({ url: z.url(), headers: z.record(z.string(), z.string()) });
export type SignedRequest = z.infer<typeof SignedRequest>;

export const ObjectsReadGrant = z.strictObject({
  driver: z.literal("objects"),
  access: z.literal("read"),
  ...scope,
  manifestDigest: Digest,
  /** GET of the publication. */
  publication: SignedRequest,
  /** GET of each object of each file, in the manifest's order. Empty if nothing is published. */
  files: z.array(SignedRequest),
});
export type ObjectsReadGrant = z.infer<typeof ObjectsReadGrant>;

/** A grant to write a checkpoint into an object store, for a single attempt. */
export const ObjectsWriteGrant = z.strictObject({
  driver: z.literal("objects"),
  access: z.literal("write"),
  ...scope,
  /** The attempt to which the files belong. */
  attempt: z.string().min(1),
  /** GET of an existing publication. */
  publication: SignedRequest,
  /** PUT of the publication. It fails if one exists. */
  publish: SignedRequest,
  /** PUT of each object of each file, in the order of the files' names. It fails if the object exists. */
  files: z.array(SignedRequest).min(1),
  /** The size limit of one object. */
  largestFileBytes: z.number().int().positive(),
});
export type ObjectsWriteGrant = z.infer<typeof ObjectsWriteGrant>;

/**
 * A short-lived permission to read or write exactly one checkpoint. A controller issues it and a cell uses it. It holds no
 * long-lived credential.
 */
export const Grant = z.discriminatedUnion("driver", [
  DirectoryGrant,
  z.discriminatedUnion("access", [ObjectsReadGrant, ObjectsWriteGrant]),
]);
export type Grant = z.infer<typeof Grant>;
