import { createHash } from "node:crypto";
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

/** Hashes an open file from its beginning. The next slice is read while the current one is hashed. */
export async function contentDigest(file: FileHandle, signal?: AbortSignal): Promise<ContentDigest> {
  const hash = createHash("sha256");
  let [current, next] = [Buffer.allocUnsafeSlow(sliceBytes), Buffer.allocUnsafeSlow(sliceBytes)];
  let sizeBytes = 0;
  let { bytesRead } = await file.read(current, 0, sliceBytes, 0);
  while (bytesRead > 0) {
    signal?.throwIfAborted();
    sizeBytes += bytesRead;
    const reading = file.read(next, 0, sliceBytes, sizeBytes);
    hash.update(current.subarray(0, bytesRead));
    ({ bytesRead } = await reading);
    [current, next] = [next, current];
  }
  return { digest: `sha256:${hash.digest("hex")}`, sizeBytes };
}
