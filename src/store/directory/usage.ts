import { readdir } from "node:fs/promises";
import { join } from "node:path";
import type { StoreUsage } from "../checkpoint-store.ts";
import { ifPresent, statOf } from "./durable.ts";
import { type Layout } from "./layout.ts";

/** Of a namespace that has nothing in the store. */
export const noUsage: StoreUsage = { checkpoints: 0, contents: 0, contentBytes: 0, sharedBytes: 0, stagingBytes: 0 };

/** What a namespace takes. Files are told apart by inode, so that what is shared counts once. */
export async function usageOf(layout: Layout): Promise<StoreUsage> {
  const counted = new Set<bigint>();
  const checkpoints = (await ifPresent(readdir(layout.checkpoints))) ?? [];
  const published = newTally();
  for (const id of checkpoints) await count(layout.checkpoint(id).image, counted, published);
  const other = newTally();
  for (const path of [layout.staging, layout.contentFolder]) await count(path, counted, other);
  return {
    checkpoints: checkpoints.length,
    contents: published.files,
    contentBytes: published.bytes,
    sharedBytes: published.againBytes,
    stagingBytes: other.bytes,
  };
}

interface Tally {
  /** Those that nothing had counted. */
  files: number;
  bytes: number;
  /** Of files that something had counted already. */
  againBytes: number;
}

const newTally = (): Tally => ({ files: 0, bytes: 0, againBytes: 0 });

async function count(path: string, counted: Set<bigint>, tally: Tally): Promise<void> {
  const stats = await statOf(path);
  if (stats === undefined) return;
  if (stats.isDirectory()) {
    for (const name of (await ifPresent(readdir(path))) ?? []) await count(join(path, name), counted, tally);
  } else if (counted.has(stats.ino)) tally.againBytes += Number(stats.size);
  else {
    counted.add(stats.ino);
    tally.files++;
    tally.bytes += Number(stats.size);
  }
}
