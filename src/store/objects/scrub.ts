import { createHash } from "node:crypto";
import type { CheckpointRef } from "../checkpoint-id.ts";
import type { Damage, ScrubOptions, ScrubReport } from "../checkpoint-store.ts";
import { parseManifest, type Manifest, type ManifestFile } from "../manifest.ts";
import type { Bucket } from "./bucket.ts";
import { inventory } from "./inventory.ts";
import { fileKey } from "./layout.ts";
import { findPublication, isUnreadable } from "./publication.ts";

/** Reads all published files and verifies their hashes. */
export async function scrubStore(bucket: Bucket, options: ScrubOptions): Promise<ScrubReport> {
  const report: ScrubReport = { checkpoints: 0, bytes: 0, damaged: [] };
  const { checkpoints } = await inventory(bucket, options.namespace, options.signal);
  for (const { ref, publication } of checkpoints) {
    if (publication === undefined) continue;
    const damaged = await scrubCheckpoint({ bucket, ref, report, options });
    // A checkpoint that is being removed looks damaged.
    if (damaged === undefined || !(await stillExists(bucket, ref))) continue;
    report.checkpoints += 1;
    report.damaged.push(...damaged);
  }
  return report;
}

interface Scrub {
  bucket: Bucket;
  ref: CheckpointRef;
  report: ScrubReport;
  options: ScrubOptions;
}

/** Returns `undefined` if the checkpoint no longer exists. */
async function scrubCheckpoint(scrub: Scrub): Promise<Damage[] | undefined> {
  const { bucket, ref, options } = scrub;
  let published: { attempt: string; manifest: Manifest };
  try {
    const publication = await findPublication(bucket, ref);
    if (publication === undefined) return undefined;
    published = { attempt: publication.attempt, manifest: parseManifest(publication.manifestBytes, ref) };
  } catch (error) {
    if (isUnreadable(error)) return [{ ...ref, reason: error.message }];
    throw error;
  }
  const damaged: Damage[] = [];
  for (const [index, file] of published.manifest.files.entries()) {
    options.signal?.throwIfAborted();
    const reason = await scrubFile(scrub, file, fileKey(ref, published.attempt, index));
    if (reason !== undefined) damaged.push({ ...ref, file: file.name, reason });
  }
  return damaged;
}

async function scrubFile(
  { bucket, ref, report, options }: Scrub,
  file: ManifestFile,
  key: string,
): Promise<string | undefined> {
  options.onProgress?.({ bytes: report.bytes, ref, file: file.name });
  const chunks = await bucket.read(key, options.signal);
  if (chunks === undefined) return "it is missing";
  const hash = createHash("sha256");
  for await (const chunk of chunks) {
    hash.update(chunk);
    report.bytes += chunk.length;
  }
  const digest = `sha256:${hash.digest("hex")}`;
  return digest === file.digest ? undefined : `its digest is ${digest} instead of ${file.digest}`;
}

async function stillExists(bucket: Bucket, ref: CheckpointRef): Promise<boolean> {
  try {
    return (await findPublication(bucket, ref)) !== undefined;
  } catch (error) {
    if (isUnreadable(error)) return true;
    throw error;
  }
}
