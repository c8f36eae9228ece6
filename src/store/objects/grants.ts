import type { ObjectsReadGrant, ObjectsWriteGrant } from "../../api/cell/grant.ts";
import type { CheckpointRef } from "../checkpoint-id.ts";
import { parseManifest } from "../manifest.ts";
import type { Bucket } from "./bucket.ts";
import { fileKey, mostFiles, newAttempt, publicationKey } from "./layout.ts";
import { findPublication, isUnreadable } from "./published.ts";

/** How long a grant is good for, said twice: its signatures know the one, its reader the other. */
export interface Term {
  ttlMilliseconds: number;
  /** Milliseconds since 1970. */
  expiresAt: number;
}

/** A grant for one attempt that nobody else makes. */
export async function grantToWrite(
  bucket: Bucket,
  ref: CheckpointRef,
  { ttlMilliseconds, expiresAt }: Term,
): Promise<ObjectsWriteGrant> {
  const attempt = newAttempt(expiresAt);
  const keys = Array.from({ length: mostFiles }, (_, index) => fileKey(ref, attempt, index));
  const [publication, publish, files] = await Promise.all([
    bucket.signGet(publicationKey(ref), ttlMilliseconds),
    bucket.signPutIfAbsent(publicationKey(ref), ttlMilliseconds),
    Promise.all(keys.map((key) => bucket.signPutIfAbsent(key, ttlMilliseconds))),
  ]);
  const { largestObjectBytes: largestFileBytes } = bucket;
  const signed = { attempt, publication, publish, files, largestFileBytes };
  return { driver: "objects", access: "write", ...ref, expiresAt, ...signed };
}

export async function grantToRead(
  bucket: Bucket,
  { manifestDigest, ...ref }: CheckpointRef & { manifestDigest: string },
  { ttlMilliseconds, expiresAt }: Term,
): Promise<ObjectsReadGrant> {
  const [publication, files] = await Promise.all([
    bucket.signGet(publicationKey(ref), ttlMilliseconds),
    publishedKeys(bucket, ref).then((keys) => Promise.all(keys.map((key) => bucket.signGet(key, ttlMilliseconds)))),
  ]);
  return { driver: "objects", access: "read", ...ref, expiresAt, manifestDigest, publication, files };
}

/** None of a checkpoint that is not there, or not legal: whoever opens it then learns that from what is published. */
async function publishedKeys(bucket: Bucket, ref: CheckpointRef): Promise<string[]> {
  try {
    const publication = await findPublication(bucket, ref);
    if (publication === undefined) return [];
    const { files } = parseManifest(publication.manifestBytes, ref);
    return files.map((_, index) => fileKey(ref, publication.attempt, index));
  } catch (error) {
    if (isUnreadable(error)) return [];
    throw error;
  }
}
