import type { BigIntStats } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { CheckpointId, type CheckpointRef } from "../checkpoint-id.ts";
import type { Removal, SweepOptions, SweepReport } from "../checkpoint-store.ts";
import type { Step } from "../sessions.ts";
import { collectContent, settleContent } from "./content.ts";
import { ifPresent, statOf } from "./durable.ts";
import { type Layout, stagingKind } from "./layout.ts";
import { namespacesIn } from "./namespace-directory.ts";
import { unverifiedManifest } from "./published.ts";
import { doom, removeCheckpoint, removeRest } from "./remove.ts";

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
  for (const bucket of await readdir(layout.contentDirectory)) {
    for (const hex of (await ifPresent(readdir(join(layout.contentDirectory, bucket)))) ?? []) {
      options.signal?.throwIfAborted();
      if (!/^[0-9a-f]{64}$/.test(hex) || !hex.startsWith(bucket)) {
        report.foreign.push(join(layout.contentDirectory, bucket, hex));
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

/**
 * Removes nothing, and answers what `removing` would. Content is kept by hard links, and the last one that goes frees it: so
 * the links that would be gone by then are counted, for one sweep.
 */
function foretelling(): Removing {
  const gone = new Map<bigint, bigint>();
  const linksOf = ({ ino, nlink }: BigIntStats): bigint => nlink - (gone.get(ino) ?? 0n);
  const unlink = ({ ino }: BigIntStats): void => {
    gone.set(ino, (gone.get(ino) ?? 0n) + 1n);
  };

  async function tree(path: string): Promise<number> {
    const files = await filesBelow(path);
    const freed = files.filter((file) => linksOf(file) === 1n);
    for (const file of files) unlink(file);
    return freed.reduce((sum, { size }) => sum + Number(size), 0);
  }

  async function unused(path: string): Promise<number> {
    const stats = await statOf(path);
    if (stats === undefined || linksOf(stats) !== 1n) return 0;
    unlink(stats);
    return Number(stats.size);
  }

  return {
    rest: (_layout, path) => tree(path),
    async checkpoint(layout, ref) {
      const manifest = await unverifiedManifest(layout, ref).catch(() => undefined);
      let freedBytes = await tree(layout.checkpoint(ref.checkpointId).path);
      for (const digest of new Set(manifest?.files.map((file) => file.digest))) {
        freedBytes += await unused(layout.content(digest));
      }
      return { removed: true, freedBytes };
    },
    content: (layout, digest) => unused(layout.content(digest)),
    stagedContent: (_layout, path) => unused(path),
  };
}

/** Links are not followed. */
async function filesBelow(path: string): Promise<BigIntStats[]> {
  const stats = await statOf(path);
  if (stats === undefined) return [];
  if (!stats.isDirectory()) return [stats];
  const names = (await ifPresent(readdir(path))) ?? [];
  return (await Promise.all(names.map((name) => filesBelow(join(path, name))))).flat();
}

/** How a sweep takes away what it has found. Each answers how many bytes that frees; 0 also for what is in use. */
interface Removing {
  /** An old entry of `staging`; `undefined`: it was gone. */
  rest(layout: Layout, path: string, isDoomed: boolean): Promise<number | undefined>;
  checkpoint(layout: Layout, ref: CheckpointRef): Promise<Removal>;
  /** Content under its own name. */
  content(layout: Layout, digest: string): Promise<number>;
  /** Content that a crash left in `staging`. */
  stagedContent(layout: Layout, path: string, digest: string): Promise<number>;
}

function removing(step: Step): Removing {
  return {
    async rest(layout, path, isDoomed) {
      // By a rename first: a publication that goes on after all then fails as a whole.
      const doomed = isDoomed ? path : await doom(layout, path);
      return doomed === undefined ? undefined : removeRest(doomed);
    },
    checkpoint: (layout, ref) => removeCheckpoint(layout, ref, step),
    content: (layout, digest) => collectContent(layout, digest, step),
    stagedContent: settleContent,
  };
}
