import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { StoreLocation } from "../../../src/api/store/store-address.ts";
import type { CheckpointStore } from "../../../src/store/checkpoint-store.ts";
import { storeAt } from "../../../src/store/store-at.ts";
import type { ObjectServer } from "../../setup/object-server.ts";
import type { CloudUnderTest } from "./cloud-under-test.ts";
import { publish, restore, shiftedClock } from "./harness.ts";
import type { Order } from "./order.ts";
import { runChild } from "./run-child.ts";
import { expectSound as expectStoreSound, files, publishNeighbour, victim } from "./victim.ts";

const later = 2 * 3_600_000;

/** Tests the store after the kill of a process: a cell that publishes, or a controller that removes or sweeps. */
export function objectsKilled(cloud: CloudUnderTest): void {
  describe(`a store in ${cloud.name}`, () => {
    let server: ObjectServer;
    let root: string;
    let place: StoreLocation;
    let store: CheckpointStore;
    let sweeper: CheckpointStore;
    let neighbourDigest: string;

    beforeAll(async () => {
      server = await cloud.start();
      Object.assign(process.env, server.environment);
    });
    afterAll(() => server.stop());
    beforeEach(async () => {
      root = await mkdtemp(join(tmpdir(), "ramet-scratch-"));
      place = await server.makePlace();
      store = await storeAt(place);
      sweeper = await storeAt(place, { clock: shiftedClock(() => later) });
      neighbourDigest = await publishNeighbour(store);
    });
    afterEach(() => rm(root, { recursive: true }));

    async function killAt(operation: Order["operation"], step: string, time = 1): Promise<void> {
      const order = { operation, root, place, later, checkpointId: victim.checkpointId, files, stopAt: { step, time } };
      expect(await runChild(operation === "sweep" ? order : { ...order, later: 0 })).toBe(`at ${step}`);
    }

    function expectSound(contentBytes: number): Promise<void> {
      return expectStoreSound(store, { sweeper, olderThanMilliseconds: 3_600_000, neighbourDigest }, contentBytes);
    }

    it.each([
      ["staged", 1],
      ["file uploaded", 1],
      ["file uploaded", 2],
      ["file uploaded", 3],
      ["uploaded", 1],
    ])("leaves only orphans when a publisher is killed at %s %i, and publishes at a retry", async (step, time) => {
      await killAt("publish", step, time);
      expect(await store.has(victim)).toBe(false);
      await expectSound(5);
      const { manifestDigest } = await publish({ store }, victim, files);
      expect(await restore({ store }, victim, manifestDigest)).toEqual(files);
    });

    it("keeps the whole checkpoint when a publisher is killed after the publication", async () => {
      await killAt("publish", "published");
      const found = await store.find(victim);
      expect(await restore({ store }, victim, found?.manifestDigest ?? "")).toEqual(files);
      await expectSound(100_014);
      const again = await publish({ store }, victim, files);
      expect(again.manifestDigest).toBe(found?.manifestDigest);
    });

    it.each([
      ["unpublished", 1],
      ["deleted", 1],
      ["deleted", 2],
    ])("removes only the requested checkpoint when a remover is killed at %s %i", async (step, time) => {
      await publish({ store }, victim, files);
      await killAt("remove", step, time);
      expect(await store.has(victim)).toBe(false);
      expect(await store.remove(victim)).toMatchObject({ removed: false });
      await expectSound(5);
    });

    it("loses nothing when a sweeper is killed, and finishes in the next sweep", async () => {
      await killAt("publish", "uploaded");
      const { manifestDigest } = await publish({ store }, victim, files);
      await killAt("sweep", "deleted", 2);
      expect(await restore({ store }, victim, manifestDigest)).toEqual(files);
      await expectSound(100_014);
    });
  });
}
