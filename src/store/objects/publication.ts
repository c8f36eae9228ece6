import { z } from "zod";
import { canonicalJson } from "../../base/canonical-json.ts";
import type { CheckpointRef } from "../checkpoint-id.ts";
import { digestOf, lost, parseManifest, sizeOf, versionedJson, type Manifest } from "../manifest.ts";
import type { PublishedCheckpoint } from "../sessions.ts";
import { attemptExpiry } from "./layout.ts";

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
