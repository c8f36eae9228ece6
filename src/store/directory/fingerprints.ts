import type { BigIntStats } from "node:fs";
import { rename, rm } from "node:fs/promises";
import * as z from "zod";
import { canonicalJson } from "../../base/canonical-json.ts";
import { FileName } from "../manifest.ts";
import { readSmallFile, writeDurably } from "./durable.ts";
import type { CheckpointLayout } from "./layout.ts";

/**
 * Detects a modified or replaced file much faster than a hash. Does not include the change time, because every new hard link
 * changes it.
 */
const Fingerprint = z.object({ sizeBytes: z.string(), inode: z.string(), modifiedNanoseconds: z.string() });
export type Fingerprint = z.infer<typeof Fingerprint>;

const Fingerprints = z.object({ v: z.literal(1), files: z.record(FileName, Fingerprint) });
export type Fingerprints = z.infer<typeof Fingerprints>["files"];

export function fingerprintOf(stats: BigIntStats): Fingerprint {
  return {
    sizeBytes: stats.size.toString(),
    inode: stats.ino.toString(),
    modifiedNanoseconds: stats.mtimeNs.toString(),
  };
}

export function sameFingerprint(a: Fingerprint, b: Fingerprint | undefined): boolean {
  return a.sizeBytes === b?.sizeBytes && a.inode === b.inode && a.modifiedNanoseconds === b.modifiedNanoseconds;
}

/** Reads the recorded fingerprints. If they are missing or invalid, the result is empty and the files must be hashed. */
export async function readFingerprints(checkpoint: CheckpointLayout): Promise<Fingerprints> {
  try {
    const bytes = await readSmallFile(checkpoint.fingerprints, 1 << 20);
    return bytes === undefined ? {} : Fingerprints.parse(JSON.parse(bytes.toString("utf8"))).files;
  } catch {
    return {};
  }
}

/** Records fingerprints atomically. `draftPath` must be on the same file system. */
export async function writeFingerprints(
  checkpoint: CheckpointLayout,
  draftPath: string,
  files: Fingerprints,
): Promise<void> {
  try {
    await writeDurably(draftPath, Buffer.from(canonicalJson({ v: 1, files })));
    await rename(draftPath, checkpoint.fingerprints);
  } catch (error) {
    await rm(draftPath, { force: true });
    throw error;
  }
}
