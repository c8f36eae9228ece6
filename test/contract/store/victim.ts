import { expect } from "vitest";
import type { CheckpointStore } from "../../../src/store/checkpoint-store.ts";
import { publish, restore } from "./harness.ts";
import { namespace } from "./order.ts";

/** The checkpoint during whose publication or removal a process is killed. */
export const victim = { namespace, checkpointId: "victim" };
export const files = { "checkpoint.img": "state", "pages.img": "p".repeat(100_000), "pages_meta.img": "meta" };

const neighbour = { namespace, checkpointId: "neighbour" };
const neighbourFiles = { "checkpoint.img": "state" };

/** Publishes a checkpoint that shares a file with the victim. @returns the digest of its manifest */
export async function publishNeighbour(store: CheckpointStore): Promise<string> {
  return (await publish({ store }, neighbour, neighbourFiles)).manifestDigest;
}

export interface Sweep {
  /** The store with a later clock. */
  sweeper: CheckpointStore;
  olderThanMilliseconds: number;
  neighbourDigest: string;
}

/** Asserts what holds after any crash: the neighbour is complete, the store is undamaged, and a sweep removes all orphans. */
export async function expectSound(store: CheckpointStore, sweep: Sweep, contentBytes: number): Promise<void> {
  const { sweeper, olderThanMilliseconds, neighbourDigest } = sweep;
  expect(await restore({ store }, neighbour, neighbourDigest)).toEqual(neighbourFiles);
  expect((await store.scrub()).damaged).toEqual([]);
  await sweeper.sweep({ livenessOf: () => Promise.resolve("finished"), olderThanMilliseconds });
  expect(await store.usage(namespace)).toMatchObject({ contentBytes, stagingBytes: 0 });
}
