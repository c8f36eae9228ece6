import { createHash, type Hash } from "node:crypto";
import type { FileHandle } from "node:fs/promises";

/** The SHA-256 of a file and its size. */
export interface ContentDigest {
  digest: string;
  sizeBytes: number;
}

/**
 * Large enough for efficient reads. Small enough that hashing a slice blocks the event loop for only about a millisecond, so
 * that a cell stays responsive.
 */
const sliceBytes = 1 << 20;

/** Hashes an open file from the start. */
export async function contentDigest(file: FileHandle, signal?: AbortSignal): Promise<ContentDigest> {
  const hash = createHash("sha256");
  const sizeBytes = await hashFile(file, [hash], signal);
  return { digest: `sha256:${hash.digest("hex")}`, sizeBytes };
}

/** Updates all `hashes` with a file. Reads the next slice while it hashes the current one. @returns the size of the file */
export async function hashFile(file: FileHandle, hashes: readonly Hash[], signal?: AbortSignal): Promise<number> {
  let [current, next] = [Buffer.allocUnsafeSlow(sliceBytes), Buffer.allocUnsafeSlow(sliceBytes)];
  let sizeBytes = 0;
  let { bytesRead } = await file.read(current, 0, sliceBytes, 0);
  while (bytesRead > 0) {
    signal?.throwIfAborted();
    sizeBytes += bytesRead;
    const reading = file.read(next, 0, sliceBytes, sizeBytes);
    for (const hash of hashes) hash.update(current.subarray(0, bytesRead));
    ({ bytesRead } = await reading);
    [current, next] = [next, current];
  }
  return sizeBytes;
}
