import { newSweepReport, type SweepOptions, type SweepReport } from "../checkpoint-store.ts";
import type { CheckpointRef } from "../checkpoint-id.ts";
import type { Step } from "../sessions.ts";
import type { Bucket, StoredObject } from "./bucket.ts";
import { bytesOf, deleteAll, type Holding, inventory, removeCheckpoint, separateFiles } from "./inventory.ts";
import { attemptExpiry } from "./layout.ts";
import { findPublication } from "./publication.ts";
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
