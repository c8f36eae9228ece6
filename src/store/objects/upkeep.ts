import { createHash } from "node:crypto";
import type { CheckpointRef } from "../checkpoint-id.ts";
import {
  type Damage,
  type ScrubOptions,
  type ScrubReport,
  type SweepOptions,
  type SweepReport,
  newSweepReport,
} from "../checkpoint-store.ts";
import { type Manifest, type ManifestFile, parseManifest } from "../manifest.ts";
import type { Step } from "../sessions.ts";
import type { Bucket, StoredObject } from "./bucket.ts";
import { type Holding, bytesOf, deleteAll, inventory, removeCheckpoint, separateFiles } from "./inventory.ts";
import { attemptExpiry, keysOf, findPublication, isUnreadable } from "./layout.ts";
import { requestMilliseconds } from "./signed-http.ts";

export interface SweepContext {
  /** Milliseconds since 1970, by the same clock as the expiry of grants. */
  now: number;
  step: Step;
}

/**
 * Removes checkpoints without an object, and unpublished attempts. With `dryRun`, examines the same data but removes nothing.
 * Never removes an attempt with a valid grant, because it can still be published.
 */
export async function sweepStore(bucket: Bucket, options: SweepOptions, context: SweepContext): Promise<SweepReport> {
  const { checkpoints, probes, foreign } = await inventory(bucket, options.namespace, options.signal);
  const report = newSweepReport(foreign);
  const sweep: Sweep = { bucket, options, report, ...context, before: context.now - options.olderThanMilliseconds };
  for (const holding of checkpoints) {
    options.signal?.throwIfAborted();
    await sweepHolding(sweep, holding);
  }
  for (const probe of probes) if (isOld(sweep, [probe])) await sweepOrphan(sweep, [probe]);
  return report;
}

interface Sweep extends SweepContext {
  bucket: Bucket;
  options: SweepOptions;
  report: SweepReport;
  /** Ignores data that was written after this time. */
  before: number;
}

async function sweepHolding(sweep: Sweep, holding: Holding): Promise<void> {
  const { bucket, options } = sweep;
  const { ref, publication } = holding;
  const { files, orphans } = await separateFiles(bucket, holding);
  if (publication !== undefined) await sweepPublished(sweep, ref, { publication, files });
  for (const { attempt, files: orphan } of orphans) {
    if (!isOld(sweep, orphan) || !isFinished(sweep, attempt) || (await options.livenessOf(ref)) === "unfinished")
      continue;
    if ((await findPublication(bucket, ref))?.attempt !== attempt) await sweepOrphan(sweep, orphan);
  }
}

async function sweepPublished(
  sweep: Sweep,
  ref: CheckpointRef,
  { publication, files }: { publication: StoredObject; files: readonly StoredObject[] },
): Promise<void> {
  const { bucket, options, report, step } = sweep;
  if (!isOld(sweep, [publication]) || (await options.livenessOf(ref)) !== "absent") {
    report.keptCheckpoints.push(ref);
  } else if (options.dryRun === true || (await removeCheckpoint(bucket, ref, step)).removed) {
    report.removedCheckpoints.push(ref);
    report.freedBytes += bytesOf(files);
  }
}

async function sweepOrphan({ bucket, options, report, step }: Sweep, files: readonly StoredObject[]): Promise<void> {
  if (options.dryRun !== true) await deleteAll(bucket, files, step);
  report.removedRests += 1;
  report.freedBytes += bytesOf(files);
}

function isOld({ before }: Sweep, objects: readonly StoredObject[]): boolean {
  return objects.every(({ writtenAt }) => writtenAt <= before);
}

/** Returns whether the last request of the attempt's grant must have ended. */
function isFinished({ now }: Sweep, attempt: string): boolean {
  return (attemptExpiry(attempt) ?? Infinity) + requestMilliseconds <= now;
}

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
  const { attempt, manifest } = published;
  const keys = keysOf(ref, attempt, manifest.files);
  for (const [index, file] of manifest.files.entries()) {
    options.signal?.throwIfAborted();
    const reason = await scrubFile(scrub, file, keys[index] ?? []);
    if (reason !== undefined) damaged.push({ ...ref, file: file.name, reason });
  }
  return damaged;
}

async function scrubFile(
  { bucket, ref, report, options }: Scrub,
  file: ManifestFile,
  keys: readonly string[],
): Promise<string | undefined> {
  options.onProgress?.({ bytes: report.bytes, ref, file: file.name });
  const hash = createHash("sha256");
  for (const key of keys) {
    const chunks = await bucket.read(key, options.signal);
    if (chunks === undefined) return "it is missing";
    for await (const chunk of chunks) {
      hash.update(chunk);
      report.bytes += chunk.length;
    }
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
