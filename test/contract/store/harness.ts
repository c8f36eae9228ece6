import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type Clock, systemClock } from "../../../src/base/clock.ts";
import type { CheckpointRef } from "../../../src/store/checkpoint-id.ts";
import type { CheckpointStore } from "../../../src/store/checkpoint-store.ts";
import type { ManifestDraft } from "../../../src/store/manifest.ts";
import { openForRead, openForWrite } from "../../../src/store/open.ts";
import type { Publication, ReadSession } from "../../../src/store/sessions.ts";
import { draft } from "./draft.ts";

/** The allowed differences between drivers. */
export interface StoreTraits {
  /** Whether the store keeps equal content of two checkpoints of a namespace only once. */
  sharesContent: boolean;
  /**
   * The fate of a publication in progress during a sweep without a minimum age: it `fails` completely, or it is `spared`
   * while its grant is valid.
   */
  sweptPublication: "fails" | "spared";
  /** The step of a publication after which all files are in the store, but nothing is published. */
  filesStored: string;
}

/** An empty store of one driver, with operations that bypass its interface. */
export interface StoreUnderTest {
  store: CheckpointStore;
  traits: StoreTraits;
  /** The clock of the store and the cells; never behind the times that the driver records. */
  clock: Clock;
  /** The scratch directory of the cells, in which killed cells leave files. */
  scratchPath?: string;
  advance(milliseconds: number): void;
  /** Changes one byte of a published file, like a failing disk. */
  damage(ref: CheckpointRef, file: string): Promise<void>;
  dispose(): Promise<void>;
}

/** The parts of a store that the functions below need. @default clock: the system's clock */
type StoreAndClock = Pick<StoreUnderTest, "store"> & { clock?: Clock };

/** The system's clock, ahead by `offset` milliseconds. */
export function shiftedClock(offset: () => number): Clock {
  return { ...systemClock, now: () => new Date(Date.now() + offset()) };
}

export type Files = Record<string, string | Uint8Array>;

export const ttlMilliseconds = 60_000;

/** Publishes a checkpoint like a cell: with a grant, by writing files into the staging directory. */
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

/** Stops a publication when all files are in the store, like a cell that is killed at that moment. */
export async function leaveOrphan(s: StoreUnderTest, ref: CheckpointRef, files: Files): Promise<void> {
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

/** Restores a checkpoint. @returns the content of its files */
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
