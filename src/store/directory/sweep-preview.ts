import type { BigIntStats } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { ifPresent, statOf } from "./durable.ts";
import { unverifiedManifest } from "./published.ts";
import type { Removing } from "./removing.ts";

/**
 * Removes nothing, and answers what `removing` would. Content is kept by hard links, and the last one that goes frees it: so
 * the links that would be gone by then are counted, for one sweep.
 */
export function foretelling(): Removing {
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
