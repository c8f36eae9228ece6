import * as z from "zod";
import type { Grant } from "../../api/wire/grant.ts";
import { canonicalJson } from "../../base/canonical-json.ts";
import { RametError } from "../../base/errors.ts";
import type { CheckpointRef } from "../checkpoint-id.ts";
import { decodeManifest, digestOf, lost, type Manifest, parseManifest, sizeOf, versionedJson } from "../manifest.ts";
import type { PublishedCheckpoint } from "../sessions.ts";
import { type Bucket, readWhole } from "./bucket.ts";
import { attemptExpiry, publicationKey } from "./layout.ts";
import { type CallContext, callSigned } from "./signed-http.ts";

/** The content of a publication: the manifest and the name of the attempt that has the files. */
export interface PublicationObject {
  attempt: string;
  /** The canonical bytes, whose digest does not depend on the attempt. */
  manifestBytes: Buffer;
}

const version = 1;

const Stored = z.object({
  v: z.literal(version),
  attempt: z.string().refine((name) => attemptExpiry(name) !== undefined, "is not the name of an attempt"),
  manifest: z.record(z.string(), z.unknown()),
});

export function encodePublication(attempt: string, manifest: Manifest): Buffer {
  return Buffer.from(canonicalJson({ v: version, attempt, manifest }), "utf8");
}

/** Decodes a publication without validating its manifest. @throws RametError `CheckpointLost`, `CheckpointTooNew` */
export function decodePublication(bytes: Buffer, ref: CheckpointRef): PublicationObject {
  const value = versionedJson(bytes, ref, { what: "publication", known: version });
  const stored = Stored.safeParse(value);
  if (!stored.success) throw lost(ref, `its publication is not valid: ${stored.error.issues[0]?.message ?? "unknown"}`);
  const { attempt, manifest } = stored.data;
  return { attempt, manifestBytes: Buffer.from(canonicalJson(manifest), "utf8") };
}

/** Returns the digest and the size of a published checkpoint. @throws RametError `CheckpointLost`, `CheckpointTooNew` */
export function publishedCheckpoint({ manifestBytes }: PublicationObject, ref: CheckpointRef): PublishedCheckpoint {
  return { manifestDigest: digestOf(manifestBytes), sizeBytes: sizeOf(parseManifest(manifestBytes, ref)) };
}

/** Reads the publication of an id with the credentials of the controller. `undefined`: there is none. */
export async function findPublication(bucket: Bucket, ref: CheckpointRef): Promise<PublicationObject | undefined> {
  const bytes = await readWhole(bucket, publicationKey(ref));
  return bytes && decodePublication(bytes, ref);
}

/** Reads the manifest with this digest. @throws RametError `CheckpointLost`, `CheckpointTooNew` */
export async function publishedManifest(bucket: Bucket, ref: CheckpointRef, digest: string): Promise<Manifest> {
  const publication = await findPublication(bucket, ref);
  if (publication === undefined) throw lost(ref, "it is not in the store");
  return decodeManifest(publication.manifestBytes, ref, digest);
}

/** Returns whether the error means that a publication or manifest is invalid, not that the store is unavailable. */
export function isUnreadable(error: unknown): error is RametError {
  return error instanceof RametError && (error.code === "CheckpointLost" || error.code === "CheckpointTooNew");
}

/** More than the size of a manifest with the maximum number of files. */
const maximumBytes = 4 << 20;

/** Reads the publication of a grant. `undefined`: there is none. */
export async function readPublished(
  grant: Extract<Grant, { driver: "objects" }>,
  context: CallContext,
): Promise<PublicationObject | undefined> {
  const { outcome, body } = await callSigned(grant.publication, { method: "GET", ...context }, maximumBytes);
  return outcome === "absent" ? undefined : decodePublication(body, grant);
}
