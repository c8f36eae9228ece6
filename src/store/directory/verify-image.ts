import { contentDigest } from "../content-digest.ts";
import { lost, type Manifest, type ManifestFile } from "../manifest.ts";
import { errnoOf } from "../store-error.ts";
import {
  fingerprintOf,
  sameFingerprint,
  writeFingerprints,
  type Fingerprint,
  type Fingerprints,
} from "./fingerprints.ts";
import type { HeldImage } from "./held-image.ts";
import { doomedPrefix, type Layout } from "./layout.ts";

/**
 * Compares held files with their recorded fingerprints, hashes those that differ, and records what was found, so that
 * the next restore need not. Answers the names of what was hashed. `CheckpointLost`: a file is not what was published.
 */
export async function verifyImage(
  layout: Layout,
  held: HeldImage,
  manifest: Manifest,
  { fingerprints, signal }: { fingerprints: Promise<Fingerprints>; signal?: AbortSignal | undefined },
): Promise<string[]> {
  const checkpoint = layout.checkpoint(manifest.checkpointId);
  const recorded = await fingerprints;
  const found: Fingerprints = {};
  const rehashed: string[] = [];
  await Promise.all(
    manifest.files.map(async (file) => {
      const check = await verifyFile(held, manifest, { file, recorded: recorded[file.name], signal });
      found[file.name] = check.fingerprint;
      if (check.rehashed) rehashed.push(file.name);
    }),
  );
  if (rehashed.length > 0 && held.writable) {
    // To record it only saves time, so a failure, or a checkpoint that is being removed, does not matter.
    await writeFingerprints(checkpoint, layout.stagingEntry(doomedPrefix), found).catch(() => undefined);
  }
  return rehashed.sort();
}

interface FileToVerify {
  file: ManifestFile;
  recorded: Fingerprint | undefined;
  signal: AbortSignal | undefined;
}

async function verifyFile(
  held: HeldImage,
  manifest: Manifest,
  { file, recorded, signal }: FileToVerify,
): Promise<{ fingerprint: Fingerprint; rehashed: boolean }> {
  const handle = await held.open(file.name).catch((error: unknown) => {
    throw errnoOf(error) === "ELOOP" ? lost(manifest, `its file ${file.name} is a symbolic link`) : error;
  });
  try {
    const stats = await handle.stat({ bigint: true });
    const fingerprint = fingerprintOf(stats);
    if (stats.size !== BigInt(file.sizeBytes)) {
      throw lost(
        manifest,
        `its file ${file.name} has ${stats.size.toString()} bytes, published were ${file.sizeBytes}`,
      );
    }
    if (sameFingerprint(fingerprint, recorded)) return { fingerprint, rehashed: false };
    const { digest } = await contentDigest(handle, signal);
    if (digest !== file.digest) throw lost(manifest, `its file ${file.name} was changed after publication`);
    return { fingerprint, rehashed: true };
  } finally {
    await handle.close();
  }
}
