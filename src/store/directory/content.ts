import { constants } from "node:fs";
import { link, mkdir, open, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Step } from "../sessions.ts";
import { contentDigest } from "../content-digest.ts";
import type { ManifestFile } from "../manifest.ts";
import { errnoOf } from "../store-error.ts";
import { ifPresent, statOf, unless } from "./durable.ts";
import { contentPrefix, type CheckpointLayout, type Layout } from "./layout.ts";

/**
 * Makes a staged file and the namespace's content of the same digest one file, so that equal content is kept once.
 * The staged name always ends up with the right content, whatever happens to the other: a checkpoint's own links are
 * what it is made of, and `content` is how the next checkpoint finds them. Answers whether the content was there.
 */
export async function keepContent(layout: Layout, attempt: CheckpointLayout, file: ManifestFile): Promise<boolean> {
  const stagedPath = join(attempt.image, file.name);
  const kept = layout.content(file.digest);
  await unless(mkdir(dirname(kept), { mode: 0o700 }), "EEXIST");
  // A sweep may take unnamed content away between the two links; then this file becomes the content after all.
  for (;;) {
    if ((await unless(link(stagedPath, kept).then(yes), "EEXIST")) === true) return false;
    const shared = await adopt(layout.content(file.digest), attempt, file);
    if (shared !== undefined) return shared;
  }
}

/** Puts the kept content in the staged file's place, once its hash is found to be right. `undefined`: it went away. */
async function adopt(kept: string, attempt: CheckpointLayout, file: ManifestFile): Promise<boolean | undefined> {
  const stagedPath = join(attempt.image, file.name);
  const candidate = join(attempt.path, "candidate");
  try {
    await link(kept, candidate);
  } catch (error) {
    return fromLinkFailure(error);
  }
  try {
    if (await isIntact(candidate, file)) {
      await rename(candidate, stagedPath);
      return true;
    }
    // The kept content has rotted: the good file takes its name, so that nobody adopts the bad one again.
    await rm(candidate, { force: true });
    await link(stagedPath, candidate);
    await rename(candidate, kept);
    return false;
  } finally {
    // Renaming one link of a file onto another does nothing, so the candidate may still be there.
    await rm(candidate, { force: true });
  }
}

function fromLinkFailure(error: unknown): false | undefined {
  const code = errnoOf(error);
  if (code === "ENOENT") return undefined;
  // ext4 allows 65,000 names for a file; a checkpoint beyond that keeps a copy of its own.
  if (code === "EMLINK") return false;
  throw error;
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
 * Frees the content of a digest if no checkpoint has a link to it, and answers how many bytes that freed. The link
 * count decides, and it is read after the content has been taken out of reach: a publication that finds it in the last
 * moment either got its link before, which is seen, or keeps its own file.
 */
export async function collectContent(layout: Layout, digest: string, step: Step): Promise<number> {
  const kept = layout.content(digest);
  const stats = await statOf(kept);
  if (stats === undefined || stats.nlink > 1n) return 0;
  const candidate = layout.stagingEntry(contentPrefix, digest.slice("sha256:".length));
  if ((await unless(rename(kept, candidate).then(yes), "ENOENT")) === undefined) return 0;
  await step("content-taken");
  return settleContent(layout, candidate, digest);
}

/** Ends what `collectContent` or a publication began: content in use goes back to its name, other content goes. */
export async function settleContent(layout: Layout, candidate: string, digest: string): Promise<number> {
  const stats = await statOf(candidate);
  if (stats === undefined) return 0;
  const inUse = stats.nlink > 1n;
  if (inUse) await ifPresent(unless(link(candidate, layout.content(digest)), "EEXIST", "EMLINK"));
  await rm(candidate, { force: true });
  return inUse ? 0 : Number(stats.size);
}

function yes(): true {
  return true;
}
