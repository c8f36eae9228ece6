import type { SweepOptions, SweepReport } from "../checkpoint-store.ts";
import type { Step } from "../sessions.ts";
import type { Bucket, StoredObject } from "./bucket.ts";
import { bytesOf, deleteAll, type Holding, inventory, removeCheckpoint, sorted } from "./inventory.ts";
import { attemptExpiry } from "./layout.ts";
import { findPublication } from "./publication.ts";
import { requestMilliseconds } from "./signed-http.ts";

export interface SweepContext {
  /** Milliseconds since 1970, by the clock that grants end by. */
  now: number;
  step: Step;
}

/**
 * Removes checkpoints without an object, and attempts that came to nothing. With `dryRun` the same is looked at, and nothing is
 * removed. An attempt whose grant lives is never touched, whatever its age: it may be published yet.
 */
export async function sweepStore(bucket: Bucket, options: SweepOptions, context: SweepContext): Promise<SweepReport> {
  const { checkpoints, probes, foreign } = await inventory(bucket, options.namespace, options.signal);
  const report: SweepReport = { removedCheckpoints: [], removedRests: 0, removedContents: 0, freedBytes: 0, foreign };
  const sweep: Sweep = { bucket, options, report, ...context, before: context.now - options.olderThanMilliseconds };
  for (const holding of checkpoints) {
    options.signal?.throwIfAborted();
    await sweepHolding(sweep, holding);
  }
  for (const probe of probes) if (isOld(sweep, [probe])) await sweepRest(sweep, [probe]);
  return report;
}

interface Sweep extends SweepContext {
  bucket: Bucket;
  options: SweepOptions;
  report: SweepReport;
  /** What was written later than this instant is left alone. */
  before: number;
}

async function sweepHolding(sweep: Sweep, holding: Holding): Promise<void> {
  const { bucket, options, report, step } = sweep;
  const { ref, publication } = holding;
  const { files, rests } = await sorted(bucket, holding);
  if (publication !== undefined && isOld(sweep, [publication]) && (await options.standing(ref)) === "absent") {
    if (options.dryRun === true || (await removeCheckpoint(bucket, ref, step)).removed) {
      report.removedCheckpoints.push(ref);
      report.freedBytes += bytesOf(files);
    }
  }
  for (const { attempt, files: rest } of rests) {
    if (!isOld(sweep, rest) || !isOver(sweep, attempt) || (await options.standing(ref)) === "unfinished") continue;
    if ((await findPublication(bucket, ref))?.attempt !== attempt) await sweepRest(sweep, rest);
  }
}

async function sweepRest({ bucket, options, report, step }: Sweep, files: readonly StoredObject[]): Promise<void> {
  if (options.dryRun !== true) await deleteAll(bucket, files, step);
  report.removedRests += 1;
  report.freedBytes += bytesOf(files);
}

function isOld({ before }: Sweep, objects: readonly StoredObject[]): boolean {
  return objects.every(({ writtenAt }) => writtenAt <= before);
}

/** Whether the last request that its grant allowed has ended. */
function isOver({ now }: Sweep, attempt: string): boolean {
  return (attemptExpiry(attempt) ?? Infinity) + requestMilliseconds <= now;
}
