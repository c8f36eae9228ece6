import * as z from "zod";
import type { Grant } from "../../api/cell/grant.ts";
import { canonicalJson } from "../../base/canonical-json.ts";
import { RametError } from "../../base/errors.ts";
import type { CheckpointRef } from "../checkpoint-id.ts";
import { decodeManifest, digestOf, lost, type Manifest, parseManifest, sizeOf, versionedJson } from "../manifest.ts";
import type { PublishedCheckpoint } from "../sessions.ts";
import { type Bucket, readWhole } from "./bucket.ts";
import { attemptExpiry, publicationKey } from "./layout.ts";
import { type CallContext, callSigned } from "./signed-http.ts";

/** What stands in a checkpoint's publication: its manifest, and the attempt whose files it is about. */
export interface PublicationObject {
  attempt: string;
  /** Canonical: what its digest is of, which has nothing of the attempt. */
  manifestBytes: Buffer;
}

const version = 1;

const Stored = z.object({
  v: z.literal(version),
  attempt: z.string().refine((name) => attemptExpiry(name) !== undefined, "is no attempt's name"),
  manifest: z.record(z.string(), z.unknown()),
});

export function encodePublication(attempt: string, manifest: Manifest): Buffer {
  return Buffer.from(canonicalJson({ v: version, attempt, manifest }), "utf8");
}

/** Errors: `CheckpointLost` where it is not legal, `CheckpointTooNew`. The manifest in it is not looked at. */
export function decodePublication(bytes: Buffer, ref: CheckpointRef): PublicationObject {
  const value = versionedJson(bytes, ref, { what: "publication", known: version });
  const stored = Stored.safeParse(value);
  if (!stored.success) throw lost(ref, `its publication is not legal: ${stored.error.issues[0]?.message ?? "unknown"}`);
  const { attempt, manifest } = stored.data;
  return { attempt, manifestBytes: Buffer.from(canonicalJson(manifest), "utf8") };
}

/** What a publication makes known of its checkpoint. Errors: `CheckpointLost`, `CheckpointTooNew`. */
export function publishedCheckpoint({ manifestBytes }: PublicationObject, ref: CheckpointRef): PublishedCheckpoint {
  return { manifestDigest: digestOf(manifestBytes), sizeBytes: sizeOf(parseManifest(manifestBytes, ref)) };
}

/** What is published under an id, as the controller sees it; `undefined`: nothing. */
export async function findPublication(bucket: Bucket, ref: CheckpointRef): Promise<PublicationObject | undefined> {
  const bytes = await readWhole(bucket, publicationKey(ref));
  return bytes && decodePublication(bytes, ref);
}

/** The manifest with this digest. Errors: `CheckpointLost`, `CheckpointTooNew`. */
export async function publishedManifest(bucket: Bucket, ref: CheckpointRef, digest: string): Promise<Manifest> {
  const publication = await findPublication(bucket, ref);
  if (publication === undefined) throw lost(ref, "it is not in the store");
  return decodeManifest(publication.manifestBytes, ref, digest);
}

/** Whether a publication or manifest is there and no legal one, and not that the store did not give it. */
export function isUnreadable(error: unknown): error is RametError {
  return error instanceof RametError && (error.code === "CheckpointLost" || error.code === "CheckpointTooNew");
}

/** More than a manifest of the most files has. */
const mostBytes = 4 << 20;

/** What is published under the id of a grant; `undefined`: nothing. */
export async function readPublished(
  grant: Extract<Grant, { driver: "objects" }>,
  context: CallContext,
): Promise<PublicationObject | undefined> {
  const { outcome, body } = await callSigned(grant.publication, { method: "GET", ...context }, mostBytes);
  return outcome === "absent" ? undefined : decodePublication(body, grant);
}
