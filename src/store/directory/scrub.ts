import { constants } from "node:fs";
import { open, readdir } from "node:fs/promises";
import { join } from "node:path";
import { RametError } from "../../base/errors.ts";
import { CheckpointId, type CheckpointRef } from "../checkpoint-id.ts";
import type { Damage, ScrubOptions, ScrubReport } from "../checkpoint-store.ts";
import { contentDigest } from "./content.ts";
import type { Manifest, ManifestFile } from "../manifest.ts";
import { ifPresent, statOf, unless } from "./durable.ts";
import type { Layout } from "./layout.ts";
import { namespacesIn, unverifiedManifest } from "./namespace-directory.ts";

/** Hashes every published file. Hashes a shared file only once. */
export async function scrubStore(root: string, { namespace, signal, onProgress }: ScrubOptions): Promise<ScrubReport> {
  const report: ScrubReport = { checkpoints: 0, bytes: 0, damaged: [] };
  for (const found of (await namespacesIn(root)).found) {
    if (namespace !== undefined && found.namespace !== namespace) continue;
    const { layout } = found;
    const digests = new Map<bigint, string>();
    for (const checkpointId of await readdir(layout.checkpoints)) {
      if (!CheckpointId.safeParse(checkpointId).success) continue;
      const ref = { namespace: found.namespace, checkpointId };
      const damaged = await scrubCheckpoint({ layout, ref, digests, report, signal, onProgress });
      // A checkpoint that is being removed looks damaged.
      if ((await statOf(layout.checkpoint(checkpointId).path)) === undefined) continue;
      report.checkpoints += 1;
      report.damaged.push(...damaged);
    }
  }
  return report;
}

interface Scrub {
  layout: Layout;
  ref: CheckpointRef;
  /** The digests of the files hashed so far, by inode. */
  digests: Map<bigint, string>;
  report: ScrubReport;
  signal: AbortSignal | undefined;
  onProgress: ScrubOptions["onProgress"];
}

async function scrubCheckpoint(scrub: Scrub): Promise<Damage[]> {
  const manifest = await readManifest(scrub);
  if (typeof manifest === "string") return [{ ...scrub.ref, reason: manifest }];
  const damaged: Damage[] = [];
  for (const file of manifest.files) {
    scrub.signal?.throwIfAborted();
    const reason = await scrubFile(scrub, file);
    if (reason !== undefined) damaged.push({ ...scrub.ref, file: file.name, reason });
  }
  return damaged;
}

async function readManifest({ layout, ref }: Scrub): Promise<Manifest | string> {
  try {
    return (await unverifiedManifest(layout, ref)) ?? "its manifest is missing";
  } catch (error) {
    if (error instanceof RametError) return error.message;
    throw error;
  }
}

async function scrubFile(
  { layout, ref, digests, report, signal, onProgress }: Scrub,
  file: ManifestFile,
): Promise<string | undefined> {
  const path = join(layout.checkpoint(ref.checkpointId).image, file.name);
  const handle = await ifPresent(unless(open(path, constants.O_RDONLY | constants.O_NOFOLLOW), "ELOOP"));
  if (handle === undefined) return "it is missing or a symbolic link";
  try {
    const { ino, size } = await handle.stat({ bigint: true });
    if (size !== BigInt(file.sizeBytes)) return `it has ${size.toString()} bytes, but ${file.sizeBytes} were published`;
    const known = digests.get(ino);
    if (known === undefined) onProgress?.({ bytes: report.bytes, ref, file: file.name });
    const digest = known ?? (await contentDigest(handle, signal)).digest;
    if (known === undefined) report.bytes += file.sizeBytes;
    digests.set(ino, digest);
    return digest === file.digest ? undefined : `its digest is ${digest} instead of ${file.digest}`;
  } finally {
    await handle.close();
  }
}
