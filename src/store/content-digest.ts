import { createHash, type Hash } from "node:crypto";
import type { FileHandle } from "node:fs/promises";

/** The SHA-256 of a file and how many bytes went into it. */
export interface ContentDigest {
  digest: string;
  sizeBytes: number;
}

/**
 * Big enough that reads cost little, small enough that one slice blocks the event loop for about a millisecond: a cell
 * answers its controller while it hashes.
 */
const sliceBytes = 1 << 20;

/** Hashes an open file from its beginning. */
export async function contentDigest(file: FileHandle, signal?: AbortSignal): Promise<ContentDigest> {
  const hash = createHash("sha256");
  const sizeBytes = await hashFile(file, [hash], signal);
  return { digest: `sha256:${hash.digest("hex")}`, sizeBytes };
}

/** Feeds an open file to all of `hashes`, and says how long it is. The next slice is read while the current one is hashed. */
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
