import { RametError } from "../../base/errors.ts";
import type { CheckpointRef } from "../checkpoint-id.ts";
import { decodeManifest, lost, type Manifest } from "../manifest.ts";
import { readWhole, type Bucket } from "./bucket.ts";
import { publicationKey } from "./layout.ts";
import { decodePublication, type PublicationObject } from "./publication.ts";

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
