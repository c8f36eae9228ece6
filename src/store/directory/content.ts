import { type Hash, createHash } from "node:crypto";
import { type BigIntStats, constants } from "node:fs";
import { type FileHandle, link, mkdir, open, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import * as z from "zod";
import { canonicalJson } from "../../base/canonical-json.ts";
import { errnoOf } from "../../base/errors.ts";
import { FileName, type ManifestFile } from "../manifest.ts";
import type { Step } from "../sessions.ts";
import { ifPresent, readSmallFile, statOf, succeeds, unless, writeDurably } from "./durable.ts";
import { type CheckpointLayout, type Layout, contentPrefix } from "./layout.ts";

/**
 * Hard-links a staged file with the namespace's content of the same digest, so that equal content is stored once. The staged
 * name always has the right content afterwards. A checkpoint consists of its own links; the next checkpoint finds shared
 * content in `content`.
 * @returns whether the content already existed
 */
export async function keepContent(layout: Layout, attempt: CheckpointLayout, file: ManifestFile): Promise<boolean> {
  const stagedPath = join(attempt.image, file.name);
  const kept = layout.content(file.digest);
  await unless(mkdir(dirname(kept), { mode: 0o700 }), "EEXIST");
  // A sweep can remove unused content between the two links. Then this file becomes the content.
  for (;;) {
    if (await succeeds(link(stagedPath, kept), "EEXIST")) return false;
    const shared = await adopt(layout.content(file.digest), attempt, file);
    if (shared !== undefined) return shared;
  }
}

/** Replaces the staged file by the existing content if its hash is right. `undefined`: the content was removed. */
async function adopt(kept: string, attempt: CheckpointLayout, file: ManifestFile): Promise<boolean | undefined> {
  const stagedPath = join(attempt.image, file.name);
  const candidate = join(attempt.path, "candidate");
  try {
    await link(kept, candidate);
  } catch (error) {
    const code = errnoOf(error);
    if (code === "ENOENT") return undefined;
    // ext4 allows 65,000 links to a file. Beyond that, the checkpoint keeps its own copy.
    if (code === "EMLINK") return false;
    throw error;
  }
  try {
    if (await isIntact(candidate, file)) {
      await rename(candidate, stagedPath);
      return true;
    }
    // The existing content is damaged. The new file replaces it, so that no later checkpoint adopts the damage.
    await rm(candidate, { force: true });
    await link(stagedPath, candidate);
    await rename(candidate, kept);
    return false;
  } finally {
    // Renaming a link onto another link of the same file does nothing, so the candidate can still exist.
    await rm(candidate, { force: true });
  }
}

async function isIntact(path: string, file: ManifestFile): Promise<boolean> {
  const stats = await statOf(path);
  if (stats?.isFile() !== true || stats.size !== BigInt(file.sizeBytes)) return false;
  const handle = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW);
  try {
    return (await contentDigest(handle)).digest === file.digest;
  } finally {
    await handle.close();
  }
}

/**
 * Removes the content of a digest if no checkpoint has a link to it. Moves the content away before it reads the link count, so
 * a concurrent publication has either linked it before, which the count shows, or keeps its own file.
 * @returns the number of freed bytes
 */
export async function collectContent(layout: Layout, digest: string, step: Step): Promise<number> {
  const kept = layout.content(digest);
  const stats = await statOf(kept);
  if (stats === undefined || stats.nlink > 1n) return 0;
  const candidate = layout.stagingEntry(contentPrefix, digest.slice("sha256:".length));
  if (!(await succeeds(rename(kept, candidate), "ENOENT"))) return 0;
  await step("content-taken");
  return settleContent(layout, candidate, digest);
}

/** Completes `collectContent`: restores the name of content that is in use, and removes other content. */
export async function settleContent(layout: Layout, candidate: string, digest: string): Promise<number> {
  const stats = await statOf(candidate);
  if (stats === undefined) return 0;
  const inUse = stats.nlink > 1n;
  if (inUse) await ifPresent(unless(link(candidate, layout.content(digest)), "EEXIST", "EMLINK"));
  await rm(candidate, { force: true });
  return inUse ? 0 : Number(stats.size);
}

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
export async function readFingerprints(checkpoint: Pick<CheckpointLayout, "fingerprints">): Promise<Fingerprints> {
  try {
    const bytes = await readSmallFile(checkpoint.fingerprints, 1 << 20);
    return bytes === undefined ? {} : Fingerprints.parse(JSON.parse(bytes.toString("utf8"))).files;
  } catch {
    return {};
  }
}

/** Records fingerprints atomically. `draftPath` must be on the same file system. */
export async function writeFingerprints(
  checkpoint: Pick<CheckpointLayout, "fingerprints">,
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

/** The SHA-256 of a file and its size. */
export interface ContentDigest {
  digest: string;
  sizeBytes: number;
  /** If the file was split. */
  split?: SplitDigest;
}

/** Of a file with two kinds of content: where the second one begins, and the digests of both. */
interface SplitDigest {
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
