import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type Clock, systemClock } from "../../../src/base/clock.ts";
import type { CheckpointRef } from "../../../src/store/checkpoint-id.ts";
import type { CheckpointStore } from "../../../src/store/checkpoint-store.ts";
import type { ManifestDraft } from "../../../src/store/manifest.ts";
import { openForRead, openForWrite } from "../../../src/store/open.ts";
import type { Publication, ReadSession } from "../../../src/store/sessions.ts";
import { draft } from "./draft.ts";

/** In what drivers differ, and may. */
export interface StoreTraits {
  /** Whether equal content of two checkpoints of a namespace is kept once. */
  sharesContent: boolean;
  /**
   * What a sweep that is told to spare nothing does to a publication in progress: `fails` as a whole, or is `spared` as long as
   * its grant lives.
   */
  sweptPublication: "fails" | "spared";
  /** The step of a publication at which all files are in the store, and nothing else of it. */
  filesStored: string;
}

/** A fresh, empty store of one driver, and what a suite has to do behind its back. */
export interface StoreUnderTest {
  store: CheckpointStore;
  traits: StoreTraits;
  /** The clock of the store and the cells; never behind the times that the driver records. */
  clock: Clock;
  /** A folder of the cells' own, in which the suite leaves what killed cells leave. */
  scratchPath?: string;
  advance(milliseconds: number): void;
  /** Changes one byte of a published file, as a failing disk or a careless person would. */
  damage(ref: CheckpointRef, file: string): Promise<void>;
  dispose(): Promise<void>;
}

/** What the functions below need of a store. @default clock: the system's clock */
type StoreAndClock = Pick<StoreUnderTest, "store"> & { clock?: Clock };

/** The system's clock, ahead by `offset` milliseconds. */
export function shiftedClock(offset: () => number): Clock {
  return { ...systemClock, now: () => new Date(Date.now() + offset()) };
}

export type Files = Record<string, string | Uint8Array>;

export const ttlMilliseconds = 60_000;

/** Publishes as a cell does: by a grant, with files written into the staging folder. */
export async function publish(
  { store, clock = systemClock }: StoreAndClock,
  ref: CheckpointRef,
  files: Files,
  changes: Partial<ManifestDraft> = {},
): Promise<Publication> {
  const session = await openForWrite(await store.grantWrite({ ...ref, ttlMilliseconds }), { clock });
  try {
    await writeFiles(session.stagingPath, files);
    return await session.publish(draft(changes));
  } finally {
    await session.abandon();
  }
}

/** Publishes until all files are in the store, and no further: as a cell does that is killed there. */
export async function leaveRest(s: StoreUnderTest, ref: CheckpointRef, files: Files): Promise<void> {
  const { store, traits } = s;
  const killed = new Error("killed");
  const onStep = (step: string): void => {
    if (step === traits.filesStored) throw killed;
  };
  const session = await openForWrite(await store.grantWrite({ ...ref, ttlMilliseconds }), { ...s, onStep });
  await writeFiles(session.stagingPath, files);
  await session.publish(draft()).then(
    () => {
      throw new Error(`the publication has no step ${traits.filesStored}`);
    },
    (error: unknown) => {
      if (!(error instanceof Error) || error.cause !== killed) throw error;
    },
  );
}

export async function writeFiles(directory: string, files: Files): Promise<void> {
  for (const [name, content] of Object.entries(files)) await writeFile(join(directory, name), content);
}

export async function openRead(
  { store, clock = systemClock }: StoreAndClock,
  ref: CheckpointRef,
  manifestDigest: string,
): Promise<ReadSession> {
  return openForRead(await store.grantRead({ ...ref, manifestDigest, ttlMilliseconds }), { clock });
}

/** What a restore would read: all files of a checkpoint. */
export async function restore(
  underTest: StoreAndClock,
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
