import { readdir } from "node:fs/promises";
import { join } from "node:path";
import type { StoreUsage } from "../checkpoint-store.ts";
import { ifPresent, statOf } from "./durable.ts";
import { type Layout } from "./layout.ts";

/** What a namespace takes. Files are told apart by inode, so that what is shared counts once. */
export async function usageOf(layout: Layout): Promise<StoreUsage> {
  const counted = new Set<bigint>();
  const checkpoints = (await ifPresent(readdir(layout.checkpoints))) ?? [];
  let contentBytes = 0;
  for (const id of checkpoints) contentBytes += await newBytes(layout.checkpoint(id).image, counted);
  const stagingBytes = (await newBytes(layout.staging, counted)) + (await newBytes(layout.contentFolder, counted));
  return { checkpoints: checkpoints.length, contentBytes, stagingBytes };
}

async function newBytes(path: string, counted: Set<bigint>): Promise<number> {
  const stats = await statOf(path);
  if (stats === undefined || counted.has(stats.ino)) return 0;
  counted.add(stats.ino);
  if (!stats.isDirectory()) return Number(stats.size);
  let sum = 0;
  for (const name of (await ifPresent(readdir(path))) ?? []) sum += await newBytes(join(path, name), counted);
  return sum;
}
