import { createHash, type Hash } from "node:crypto";
import type { FileHandle } from "node:fs/promises";

/** The SHA-256 of a file and its size. */
export interface ContentDigest {
  digest: string;
  sizeBytes: number;
  /** If the file was split. */
  split?: SplitDigest;
}

/** Of a file with two kinds of content: where the second one begins, and the digests of both. */
export interface SplitDigest {
  atBytes: number;
  digests: [string, string];
}

/** The SHA-256 of content, and of both sides of an offset. What is before it is hashed once. */
export class ContentHash {
  readonly #whole = createHash("sha256");
  readonly #after = createHash("sha256");
  readonly #atBytes: number | undefined;
  #leftBytes: number;
  #before: string | undefined;

  constructor(atBytes?: number) {
    this.#atBytes = atBytes;
    this.#leftBytes = atBytes ?? Infinity;
  }

  update(data: Buffer): void {
    const before = data.subarray(0, this.#leftBytes);
    this.#whole.update(before);
    this.#leftBytes -= before.length;
    if (this.#leftBytes > 0) return;
    this.#before ??= textOf(this.#whole.copy());
    const after = data.subarray(before.length);
    this.#whole.update(after);
    this.#after.update(after);
  }

  digests(): Pick<ContentDigest, "digest" | "split"> {
    const digest = textOf(this.#whole);
    if (this.#atBytes === undefined || this.#before === undefined) return { digest };
    return { digest, split: { atBytes: this.#atBytes, digests: [this.#before, textOf(this.#after)] } };
  }
}

function textOf(hash: Hash): string {
  return `sha256:${hash.digest("hex")}`;
}

/**
 * Large enough for efficient reads. Small enough that hashing a slice blocks the event loop for only about a millisecond, so
 * that a cell stays responsive.
 */
const sliceBytes = 1 << 20;

/** Hashes an open file from the start. @param splitAt where its second kind of content begins */
export async function contentDigest(file: FileHandle, signal?: AbortSignal, splitAt?: number): Promise<ContentDigest> {
  const hash = new ContentHash(splitAt);
  const sizeBytes = await hashFile(file, [hash], signal);
  return { ...hash.digests(), sizeBytes };
}

/** Updates all `hashes` with a file. Reads the next slice while it hashes the current one. @returns the size of the file */
export async function hashFile(
  file: FileHandle,
  hashes: readonly Pick<ContentHash, "update">[],
  signal?: AbortSignal,
): Promise<number> {
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
