import { readdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import type { CheckpointRef } from "../checkpoint-id.ts";
import type { Removal } from "../checkpoint-store.ts";
import type { Step } from "../sessions.ts";
import { collectContent } from "./content.ts";
import { ifPresent, statOf, syncDirectories, unless } from "./durable.ts";
import { doomedPrefix, type Layout } from "./layout.ts";
import { unverifiedManifest } from "./namespace-directory.ts";

/**
 * Removes a checkpoint atomically by one rename, then frees its unshared content. A crash after the rename leaves an orphan,
 * which a sweep removes.
 */
export async function removeCheckpoint(layout: Layout, ref: CheckpointRef, step: Step): Promise<Removal> {
  // The manifest only tells which content may be unused now. A sweep finds the rest.
  const manifest = await unverifiedManifest(layout, ref).catch(() => undefined);
  const doomed = await doom(layout, layout.checkpoint(ref.checkpointId).path);
  if (doomed === undefined) return { removed: false, freedBytes: 0 };
  await step("doomed");
  await syncDirectories([layout.checkpoints]);
  let freedBytes = await removeOrphan(doomed);
  await step("orphan-removed");
  const digests = new Set(manifest?.files.map((file) => file.digest));
  for (const digest of digests) freedBytes += await collectContent(layout, digest, step);
  return { removed: true, freedBytes };
}

/** Renames a path so that it cannot be found any more and can be removed later. `undefined`: it does not exist. */
export async function doom(layout: Layout, path: string): Promise<string | undefined> {
  const doomed = layout.stagingEntry(doomedPrefix);
  const done = await unless(
    rename(path, doomed).then(() => true),
    "ENOENT",
  );
  return done === undefined ? undefined : doomed;
}

/** Removes an entry of `staging` without following links. @returns the number of freed bytes */
export async function removeOrphan(path: string): Promise<number> {
  const freedBytes = await unsharedBytes(path);
  await rm(path, { recursive: true, force: true });
  return freedBytes;
}

async function unsharedBytes(path: string): Promise<number> {
  const stats = await statOf(path);
  if (stats === undefined) return 0;
  if (!stats.isDirectory()) return stats.nlink === 1n ? Number(stats.size) : 0;
  const names = (await ifPresent(readdir(path))) ?? [];
  const sizes = await Promise.all(names.map((name) => unsharedBytes(join(path, name))));
  return sizes.reduce((sum, size) => sum + size, 0);
}
