import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { CheckpointRef } from "../../../src/store/checkpoint-id.ts";
import type { CheckpointStore } from "../../../src/store/checkpoint-store.ts";
import type { ManifestDraft } from "../../../src/store/manifest.ts";
import { openForRead, openForWrite } from "../../../src/store/open.ts";
import type { Publication, ReadSession } from "../../../src/store/sessions.ts";
import { draft } from "./draft.ts";

/** A fresh, empty store of one driver, and what a suite has to do behind its back. */
export interface StoreUnderTest {
  store: CheckpointStore;
  /** Milliseconds since 1970, as the store and the cells see them; not before the times that the driver records. */
  now(): number;
  advance(milliseconds: number): void;
  /** Changes one byte of a published file, as a failing disk or a careless person would. */
  damage(ref: CheckpointRef, file: string): Promise<void>;
  dispose(): Promise<void>;
}

export type Files = Record<string, string | Uint8Array>;

export const ttlMilliseconds = 60_000;

/** Publishes as a cell does: by a grant, with files written into the staging folder. */
export async function publish(
  { store, now }: Pick<StoreUnderTest, "store" | "now">,
  ref: CheckpointRef,
  files: Files,
  changes: Partial<ManifestDraft> = {},
): Promise<Publication> {
  const session = await openForWrite(await store.grantWrite({ ...ref, ttlMilliseconds }), { now });
  try {
    await writeFiles(session.stagingPath, files);
    return await session.publish(draft(changes));
  } finally {
    await session.abandon();
  }
}

export async function writeFiles(folder: string, files: Files): Promise<void> {
  for (const [name, content] of Object.entries(files)) await writeFile(join(folder, name), content);
}

export async function openRead(
  { store, now }: Pick<StoreUnderTest, "store" | "now">,
  ref: CheckpointRef,
  manifestDigest: string,
): Promise<ReadSession> {
  return openForRead(await store.grantRead({ ...ref, manifestDigest, ttlMilliseconds }), { now });
}

/** What a restore would read: all files of a checkpoint. */
export async function restore(
  underTest: Pick<StoreUnderTest, "store" | "now">,
  ref: CheckpointRef,
  manifestDigest: string,
): Promise<Record<string, string>> {
  const session = await openRead(underTest, ref, manifestDigest);
  try {
    return await imageOf(session);
  } finally {
    await session.release();
  }
}

export async function imageOf({ manifest, imagePath }: ReadSession): Promise<Record<string, string>> {
  const pairs = manifest.files.map(async ({ name }) => [name, await readFile(join(imagePath, name), "utf8")] as const);
  return Object.fromEntries(await Promise.all(pairs));
}
