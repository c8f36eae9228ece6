import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { CheckpointId, type CheckpointRef } from "../checkpoint-id.ts";
import type { SweepOptions, SweepReport } from "../checkpoint-store.ts";
import type { Step } from "../sessions.ts";
import { ifPresent, statOf } from "./durable.ts";
import { foretelling } from "./sweep-preview.ts";
import { stagingKind, type Layout } from "./layout.ts";
import { namespacesIn } from "./namespaces.ts";
import { removing, type Removing } from "./removing.ts";

/**
 * Removes, in each namespace, rests in `staging`, checkpoints without an object, and then content without a checkpoint. With
 * `dryRun` the same is looked at in the same order, and nothing is removed.
 */
export async function sweepStore(
  root: string,
  options: SweepOptions,
  { now, step }: SweepContext,
): Promise<SweepReport> {
  const { found, foreign } = await namespacesIn(root);
  const report: SweepReport = { removedCheckpoints: [], removedRests: 0, removedContents: 0, freedBytes: 0, foreign };
  const by = options.dryRun === true ? foretelling() : removing(step);
  for (const { namespace, layout } of found) {
    if (options.namespace !== undefined && namespace !== options.namespace) continue;
    const before = now - options.olderThanMilliseconds;
    const sweep: NamespaceSweep = { namespace, layout, options, report, before, by };
    await sweepStaging(sweep);
    await sweepCheckpoints(sweep);
    await sweepContents(sweep);
  }
  return report;
}

export interface SweepContext {
  /** Milliseconds since 1970, by the clock of the file system's times. */
  now: number;
  step: Step;
}

interface NamespaceSweep {
  namespace: string;
  layout: Layout;
  options: SweepOptions;
  report: SweepReport;
  /** What was touched later than this instant is left alone. */
  before: number;
  by: Removing;
}

async function sweepStaging(sweep: NamespaceSweep): Promise<void> {
  const { layout, report, by } = sweep;
  for (const name of await readdir(layout.staging)) {
    sweep.options.signal?.throwIfAborted();
    const path = join(layout.staging, name);
    const entry = stagingKind(name);
    if (entry === undefined) {
      report.foreign.push(path);
    } else if (entry.kind === "content") {
      count(report, await by.stagedContent(layout, path, entry.digest));
    } else if (await isRest(sweep, path, entry.kind === "attempt" ? entry.checkpointId : undefined)) {
      const freedBytes = await by.rest(layout, path, entry.kind === "doomed");
      if (freedBytes !== undefined) count(report, freedBytes);
    }
  }
}

async function isRest(sweep: NamespaceSweep, path: string, checkpointId: string | undefined): Promise<boolean> {
  if (!(await isOld(sweep, path))) return false;
  if (checkpointId === undefined) return true;
  return (await sweep.options.standing({ namespace: sweep.namespace, checkpointId })) !== "unfinished";
}

async function sweepCheckpoints({ namespace, layout, options, report, before, by }: NamespaceSweep): Promise<void> {
  for (const checkpointId of await readdir(layout.checkpoints)) {
    options.signal?.throwIfAborted();
    const ref: CheckpointRef = { namespace, checkpointId };
    const { path } = layout.checkpoint(checkpointId);
    if (!CheckpointId.safeParse(checkpointId).success) {
      report.foreign.push(path);
      continue;
    }
    const stats = await statOf(path);
    // A rename into place sets the change time, so this is the age of the publication.
    if (stats === undefined || Number(stats.ctimeMs) > before || (await options.standing(ref)) !== "absent") continue;
    const { removed, freedBytes } = await by.checkpoint(layout, ref);
    if (!removed) continue;
    report.removedCheckpoints.push(ref);
    report.freedBytes += freedBytes;
  }
}

async function sweepContents({ layout, options, report, by }: NamespaceSweep): Promise<void> {
  for (const bucket of await readdir(layout.contentFolder)) {
    for (const hex of (await ifPresent(readdir(join(layout.contentFolder, bucket)))) ?? []) {
      options.signal?.throwIfAborted();
      if (!/^[0-9a-f]{64}$/.test(hex) || !hex.startsWith(bucket)) {
        report.foreign.push(join(layout.contentFolder, bucket, hex));
        continue;
      }
      const freedBytes = await by.content(layout, `sha256:${hex}`);
      if (freedBytes === 0) continue;
      report.removedContents += 1;
      report.freedBytes += freedBytes;
    }
  }
}

function count(report: SweepReport, freedBytes: number): void {
  report.freedBytes += freedBytes;
  report.removedRests += 1;
}

/** Whether neither the entry nor anything in it has been written to since the limit. */
async function isOld({ before }: NamespaceSweep, path: string): Promise<boolean> {
  return Number(await newestMilliseconds(path)) <= before;
}

async function newestMilliseconds(path: string): Promise<bigint> {
  const stats = await statOf(path);
  if (stats === undefined) return 0n;
  let newest = stats.mtimeMs;
  if (!stats.isDirectory()) return newest;
  for (const name of (await ifPresent(readdir(path))) ?? []) {
    const inside = await newestMilliseconds(join(path, name));
    if (inside > newest) newest = inside;
  }
  return newest;
}
