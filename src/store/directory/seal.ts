import { constants } from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";
import { contentDigest } from "../content-digest.ts";
import { illegalFile, imageFiles } from "../image-files.ts";
import type { ManifestFile } from "../manifest.ts";
import { statOf } from "./durable.ts";
import { fingerprintOf, sameFingerprint, type Fingerprints } from "./fingerprints.ts";

export interface SealedImage {
  files: ManifestFile[];
  /** As they are now: to be taken after equal content has been put together. */
  fingerprints(): Promise<Fingerprints>;
}

/**
 * Hashes what gVisor has written and makes it durable and read-only, all files at once: the disk writes while the
 * processor hashes. `InvalidArgument` for anything that is not a plain file.
 */
export async function sealImage(imagePath: string, signal?: AbortSignal): Promise<SealedImage> {
  const names = await imageFiles(imagePath);
  const files = await Promise.all(names.map((name) => sealFile(imagePath, name, signal)));
  return {
    files,
    fingerprints: async () => {
      const pairs = files.map(async ({ name }) => {
        const stats = await statOf(join(imagePath, name));
        if (stats === undefined) throw illegalFile(name, "it went away");
        return [name, fingerprintOf(stats)] as const;
      });
      return Object.fromEntries(await Promise.all(pairs));
    },
  };
}

async function sealFile(folder: string, name: string, signal?: AbortSignal): Promise<ManifestFile> {
  const file = await open(join(folder, name), constants.O_RDONLY | constants.O_NOFOLLOW);
  try {
    await file.chmod(0o400);
    const before = fingerprintOf(await file.stat({ bigint: true }));
    // Settled, not all: the file must not be closed while the other of the two still uses it.
    const [hashed, synced] = await Promise.allSettled([contentDigest(file, signal), file.sync()]);
    if (hashed.status === "rejected") throw hashed.reason;
    if (synced.status === "rejected") throw synced.reason;
    const after = fingerprintOf(await file.stat({ bigint: true }));
    if (!sameFingerprint(before, after)) throw illegalFile(name, "somebody still writes to it");
    return { name, ...hashed.value };
  } finally {
    await file.close();
  }
}
