import { expect } from "vitest";
import type { CheckpointStore } from "../../../src/store/checkpoint-store.ts";
import { publish, restore } from "./harness.ts";
import { namespace } from "./order.ts";

/** The checkpoint in whose making or removal a process is killed, and its files. */
export const victim = { namespace, checkpointId: "victim" };
export const files = { "checkpoint.img": "state", "pages.img": "p".repeat(100_000), "pages_meta.img": "meta" };

const neighbour = { namespace, checkpointId: "neighbour" };
const neighbourFiles = { "checkpoint.img": "state" };

/** Publishes one that shares a file with the victim, so that shared content is in play. @returns its manifest's digest */
export async function publishNeighbour(store: CheckpointStore): Promise<string> {
  return (await publish({ store }, neighbour, neighbourFiles)).manifestDigest;
}

export interface Sweep {
  /** The store, as one sees it who comes later. */
  sweeper: CheckpointStore;
  olderThanMilliseconds: number;
  neighbourDigest: string;
}

/** What must hold after any crash: the neighbour is whole, the store is sound, and a sweep leaves no rests. */
export async function expectSound(store: CheckpointStore, sweep: Sweep, contentBytes: number): Promise<void> {
  const { sweeper, olderThanMilliseconds, neighbourDigest } = sweep;
  expect(await restore({ store }, neighbour, neighbourDigest)).toEqual(neighbourFiles);
  expect((await store.scrub()).damaged).toEqual([]);
  await sweeper.sweep({ standing: () => Promise.resolve("finished"), olderThanMilliseconds });
  expect(await store.usage(namespace)).toMatchObject({ contentBytes, stagingBytes: 0 });
}
