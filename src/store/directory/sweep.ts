import type { BigIntStats } from "node:fs";
import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { CheckpointId, type CheckpointRef } from "../checkpoint-id.ts";
import { newSweepReport, type Removal, type SweepOptions, type SweepReport } from "../checkpoint-store.ts";
import type { Step } from "../sessions.ts";
import { collectContent, settleContent } from "./content.ts";
import { bytesOf, filesBelow, ifPresent, statOf, statusesBelow } from "./durable.ts";
import { type Layout, stagingKind } from "./layout.ts";
import { namespacesIn, unverifiedManifest, doom, removeCheckpoint, removeOrphan } from "./namespace-directory.ts";

/**
 * Removes, in each namespace, orphans in `staging`, checkpoints without an object, and then content without a checkpoint. With
 * `dryRun`, examines the same data in the same order but removes nothing.
 */
export async function sweepStore(
  root: string,
  options: SweepOptions,
  { now, step }: SweepContext,
): Promise<SweepReport> {
  const { found, foreign, probes } = await namespacesIn(root);
  const report = newSweepReport(foreign);
  const remover = options.dryRun === true ? dryRemover() : realRemover(step);
  const before = now - options.olderThanMilliseconds;
  if (options.namespace === undefined) await sweepProbes(probes, { options, report, before });
  for (const { namespace, layout } of found) {
    if (options.namespace !== undefined && namespace !== options.namespace) continue;
    const sweep: NamespaceSweep = { namespace, layout, options, report, before, remover };
    await sweepStaging(sweep);
    await sweepCheckpoints(sweep);
    await sweepContents(sweep);
  }
  return report;
}

export interface SweepContext {
  /** Milliseconds since 1970. Must be consistent with the file system's timestamps. */
  now: number;
  step: Step;
}

interface NamespaceSweep {
  namespace: string;
  layout: Layout;
  options: SweepOptions;
  report: SweepReport;
  /** Ignores data that changed after this time. */
  before: number;
  remover: Remover;
}

/** Removes the files of probes whose processes ended before they did it. */
async function sweepProbes(
  probes: readonly string[],
  { options, report, before }: Pick<NamespaceSweep, "options" | "report" | "before">,
): Promise<void> {
  for (const path of probes) {
    const stats = await statOf(path);
    if (stats === undefined || Number(stats.mtimeMs) > before) continue;
    if (options.dryRun !== true) await rm(path, { force: true });
    count(report, Number(stats.size));
  }
}

async function sweepStaging(sweep: NamespaceSweep): Promise<void> {
  const { layout, report, remover } = sweep;
  for (const name of await readdir(layout.staging)) {
    sweep.options.signal?.throwIfAborted();
    const path = join(layout.staging, name);
    const entry = stagingKind(name);
    if (entry === undefined) {
      report.foreign.push(path);
    } else if (entry.kind === "content") {
      count(report, await remover.stagedContent(layout, path, entry.digest));
    } else if (await isOrphan(sweep, path, entry.kind === "attempt" ? entry.checkpointId : undefined)) {
      const freedBytes = await remover.orphan(layout, path, entry.kind === "doomed");
      if (freedBytes !== undefined) count(report, freedBytes);
    }
  }
}

async function isOrphan(sweep: NamespaceSweep, path: string, checkpointId: string | undefined): Promise<boolean> {
  if (!(await isOld(sweep, path))) return false;
  if (checkpointId === undefined) return true;
  return (await sweep.options.livenessOf({ namespace: sweep.namespace, checkpointId })) !== "unfinished";
}

async function sweepCheckpoints({
  namespace,
  layout,
  options,
  report,
  before,
  remover,
}: NamespaceSweep): Promise<void> {
  for (const checkpointId of await readdir(layout.checkpoints)) {
    options.signal?.throwIfAborted();
    const ref: CheckpointRef = { namespace, checkpointId };
    const { path, manifest } = layout.checkpoint(checkpointId);
    if (!CheckpointId.safeParse(checkpointId).success) {
      report.foreign.push(path);
      continue;
    }
    const stats = await statOf(path);
    // The publishing rename sets the change time, so this is the age of the publication.
    if (stats === undefined) continue;
    if (Number(stats.ctimeMs) > before || (await options.livenessOf(ref)) !== "absent") {
      if ((await statOf(manifest)) !== undefined) report.keptCheckpoints.push(ref);
      continue;
    }
    const { removed, freedBytes } = await remover.checkpoint(layout, ref);
    if (!removed) continue;
    report.removedCheckpoints.push(ref);
    report.freedBytes += freedBytes;
  }
}

async function sweepContents({ layout, options, report, remover }: NamespaceSweep): Promise<void> {
  for (const bucket of await readdir(layout.contentDirectory)) {
    for (const hex of (await ifPresent(readdir(join(layout.contentDirectory, bucket)))) ?? []) {
      options.signal?.throwIfAborted();
      if (!/^[0-9a-f]{64}$/.test(hex) || !hex.startsWith(bucket)) {
        report.foreign.push(join(layout.contentDirectory, bucket, hex));
        continue;
      }
      const freedBytes = await remover.content(layout, `sha256:${hex}`);
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

/** Returns whether the entry and everything in it is older than the limit. */
async function isOld({ before }: NamespaceSweep, path: string): Promise<boolean> {
  return (await statusesBelow(path)).every(({ mtimeMs }) => Number(mtimeMs) <= before);
}

/**
 * Removes nothing, but returns the same as `realRemover`. Removing the last hard link of a file frees it, so this counts the
 * links that a real sweep would have removed so far.
 */
function dryRemover(): Remover {
  const removedLinks = new Map<bigint, bigint>();
  const linksOf = ({ ino, nlink }: BigIntStats): bigint => nlink - (removedLinks.get(ino) ?? 0n);
  const unlink = ({ ino }: BigIntStats): void => {
    removedLinks.set(ino, (removedLinks.get(ino) ?? 0n) + 1n);
  };

  async function tree(path: string): Promise<number> {
    const files = await filesBelow(path);
    const freed = files.filter((file) => linksOf(file) === 1n);
    for (const file of files) unlink(file);
    return bytesOf(freed);
  }

  async function unused(path: string): Promise<number> {
    const stats = await statOf(path);
    if (stats === undefined || linksOf(stats) !== 1n) return 0;
    unlink(stats);
    return Number(stats.size);
  }

  return {
    orphan: (_layout, path) => tree(path),
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

/** Removes what a sweep has found. Each method returns the number of freed bytes, which is 0 for content in use. */
interface Remover {
  /** Removes an old entry of `staging`. `undefined`: it no longer exists. */
  orphan(layout: Layout, path: string, isDoomed: boolean): Promise<number | undefined>;
  checkpoint(layout: Layout, ref: CheckpointRef): Promise<Removal>;
  content(layout: Layout, digest: string): Promise<number>;
  /** Removes or restores content that a crash left in `staging`. */
  stagedContent(layout: Layout, path: string, digest: string): Promise<number>;
}

function realRemover(step: Step): Remover {
  return {
    async orphan(layout, path, isDoomed) {
      // Renames the entry first, so that a publication that is still running fails completely.
      const doomed = isDoomed ? path : await doom(layout, path);
      return doomed === undefined ? undefined : removeOrphan(doomed);
    },
    checkpoint: (layout, ref) => removeCheckpoint(layout, ref, step),
    content: (layout, digest) => collectContent(layout, digest, step),
    stagedContent: settleContent,
  };
}
