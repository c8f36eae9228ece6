import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { directoryStore } from "../../../src/store/directory/store.ts";
import type { CheckpointStore } from "../../../src/store/checkpoint-store.ts";
import type { Order } from "./order.ts";
import { publish, restore } from "./harness.ts";
import { runChild } from "./run-child.ts";
import { expectSound as expectStoreSound, files, publishNeighbour, victim } from "./victim.ts";

let root: string;
let store: CheckpointStore;
let neighbourDigest: string;

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "ramet-store-kill-"));
  store = directoryStore({ root });
  neighbourDigest = await publishNeighbour(store);
});
afterEach(() => rm(root, { recursive: true }));

async function killAt(operation: Order["operation"], step: string, time = 1): Promise<void> {
  const order = { operation, root, checkpointId: victim.checkpointId, files, stopAt: { step, time } };
  expect(await runChild(order)).toBe(`at ${step}`);
}

function expectSound(contentBytes: number): Promise<void> {
  return expectStoreSound(store, { sweeper: store, olderThanMilliseconds: -60_000, neighbourDigest }, contentBytes);
}

it.each([
  ["staged", 1],
  ["sealed", 1],
  ["content", 1],
  ["content", 2],
  ["content", 3],
  ["manifest", 1],
  ["synced", 1],
])("leaves only orphans when a publisher is killed at %s %i, and publishes at a retry", async (step, time) => {
  await killAt("publish", step, time);
  expect(await store.has(victim)).toBe(false);
  await expectSound(5);
  const { manifestDigest } = await publish({ store }, victim, files);
  expect(await restore({ store }, victim, manifestDigest)).toEqual(files);
});

it.each(["renamed", "published"])("keeps the whole checkpoint when a publisher is killed at %s", async (step) => {
  await killAt("publish", step);
  const found = await store.find(victim);
  expect(await restore({ store }, victim, found?.manifestDigest ?? "")).toEqual(files);
  await expectSound(100_009);
  const again = await publish({ store }, victim, files);
  expect(again.manifestDigest).toBe(found?.manifestDigest);
});

it.each([
  ["doomed", 1],
  ["orphan-removed", 1],
  ["content-taken", 1],
  ["content-taken", 2],
])("removes only the requested checkpoint when a remover is killed at %s %i", async (step, time) => {
  await publish({ store }, victim, files);
  await killAt("remove", step, time);
  expect(await store.has(victim)).toBe(false);
  expect(await store.remove(victim)).toMatchObject({ removed: false });
  await expectSound(5);
});

it("loses nothing when a sweeper is killed", async () => {
  await killAt("publish", "content", 3);
  await store.sweep({ livenessOf: () => Promise.resolve("finished"), olderThanMilliseconds: 60_000 });
  await killAt("publish", "synced");
  await publish({ store }, victim, files);
  const published = await store.find(victim);
  await killAt("remove", "doomed");
  await killAt("sweep", "content-taken");
  const again = await publish({ store }, victim, files);
  expect(again.manifestDigest).toBe(published?.manifestDigest);
  await expectSound(100_009);
  expect(await restore({ store }, victim, again.manifestDigest)).toEqual(files);
});
