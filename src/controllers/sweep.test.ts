import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ManualClock } from "../../test/setup/manual-clock.ts";
import { publish, shiftedClock } from "../../test/contract/store/harness.ts";
import { Checkpoint } from "../api/kinds/checkpoint.ts";
import { RametError } from "../base/errors.ts";
import { cellBackend } from "../backends/cell-backend.ts";
import { Backends } from "../backends/backends.ts";
import { CellClient } from "../cell/client/cell-client.ts";
import { cellCredentials, newCellCredentials } from "../backends/cell-credentials.ts";
import type { Log } from "../base/log.ts";
import { openForWrite } from "../store/open.ts";
import { directoryStore } from "../store/directory/store.ts";
import { controllersMetrics } from "./metrics.ts";
import { keepSwept } from "./sweep.ts";

const hour = 3_600_000;

describe("sweeping the store", () => {
  let root: string;
  /** How much later than now it is for the store. */
  let later = 0;
  const storeClock = shiftedClock(() => later);
  beforeEach(async () => {
    root = await mkdtemp(join(tmpdir(), "ramet-"));
    later = 0;
  });
  afterEach(() => rm(root, { recursive: true, force: true }));

  /** The real store and backend; the API's objects are these, and `cached` is what an informer has of them. */
  function open({ objects, cached = [] }: { objects: () => Promise<Checkpoint[]>; cached?: Checkpoint[] }) {
    const clock = new ManualClock();
    const store = directoryStore({ root, clock: storeClock });
    const told: string[] = [];
    const tell = (_: object, message: string) => told.push(message);
    const log: Log = { debug: tell, info: tell, warn: tell, error: tell };
    const metrics = controllersMetrics();
    const end = new AbortController();
    const checkpoints = {
      store: { list: () => cached },
      resource: { list: async () => ({ items: await objects(), resourceVersion: "1" }) },
    };
    const credentials = cellCredentials(newCellCredentials());
    const cells = new CellClient(credentials.key);
    const backends = new Backends([cellBackend({ cells, credentials, store })]);
    const sweep = () =>
      keepSwept({ backends, checkpoints, clock, log, metrics: metrics.sweeps }, end.signal).finally(() => {
        cells.close();
      });
    return { store, clock, sweep, told, end, counted: () => metrics.registry.metrics() };
  }
  const object = (checkpointId: string, phase = "Succeeded") =>
    Checkpoint.parse({
      apiVersion: "agents.kruise.io/v1alpha1",
      kind: "Checkpoint",
      metadata: { name: checkpointId, namespace: "t", uid: checkpointId, resourceVersion: "1", creationTimestamp: "" },
      spec: { podName: "a" },
      status: { phase, checkpointId },
    });
  const id = (checkpointId: string) => ({ namespace: "t", checkpointId });
  const files = { "checkpoint.img": "x" };

  it("removes data without an object when it is older than every grant, at start and every ten minutes", async () => {
    const { store, clock, sweep, end, told, counted } = open({ objects: () => Promise.resolve([object("kept")]) });
    await publish({ store, clock: storeClock }, id("kept"), files);
    await publish({ store, clock: storeClock }, id("lost"), { "checkpoint.img": "only here" });
    const session = await openForWrite(await store.grantWrite({ ...id("dead"), ttlMilliseconds: 60_000 }), {
      clock: storeClock,
    });
    await writeFile(join(session.stagingPath, "pages.img"), "of a cell that was killed");
    const swept = sweep();
    await expect.poll(() => clock.waits).toEqual([600_000]);
    expect(await store.has(id("lost"))).toBe(true);
    later = hour + 60_000;
    clock.advance(600_000);
    await expect.poll(() => clock.waits).toEqual([600_000]);
    end.abort();
    await swept;
    expect([await store.has(id("kept")), await store.has(id("lost"))]).toEqual([true, false]);
    expect(await store.usage("t")).toMatchObject({ checkpoints: 1, stagingBytes: 0 });
    expect(told).toEqual(["data of a Checkpoint that is gone was removed from the store", "the store was swept"]);
    const metrics = await counted();
    expect(metrics).toContain('ramet_store_sweeps_total{result="success"} 2');
    expect(metrics).toContain('ramet_store_swept_total{what="checkpoints"} 1');
    expect(metrics).toContain('ramet_store_swept_total{what="rests"} 1');
  });

  it("leaves what the cache has and the list has not yet, and what is being taken however long it lasts", async () => {
    const taken = object("taken", "Creating");
    const cached = [object("cached")];
    const { store, clock, sweep, end } = open({ objects: () => Promise.resolve([taken]), cached });
    await publish({ store, clock: storeClock }, id("cached"), files);
    const session = await openForWrite(await store.grantWrite({ ...id("taken"), ttlMilliseconds: 60_000 }), {
      clock: storeClock,
    });
    await writeFile(join(session.stagingPath, "pages.img"), "of a cell that is slow");
    later = hour + 60_000;
    const swept = sweep();
    await expect.poll(() => clock.waits).toEqual([600_000]);
    end.abort();
    await swept;
    expect(await store.has(id("cached"))).toBe(true);
    expect((await store.usage("t")).stagingBytes).toBeGreaterThan(0);
  });

  it("loses nothing when the API server does not answer or the store is away, and tries again", async () => {
    let answer: () => Promise<Checkpoint[]> = () => Promise.reject(new RametError("Unavailable", "no API server"));
    const { store, clock, sweep, end, told, counted } = open({ objects: () => answer() });
    await publish({ store, clock: storeClock }, id("lost"), files);
    later = hour + 60_000;
    const swept = sweep();
    await expect.poll(() => clock.waits).toEqual([600_000]);
    expect(await store.has(id("lost"))).toBe(true);
    expect(told).toEqual(["the store was not swept to the end"]);
    expect(await counted()).toContain('ramet_store_sweeps_total{result="error"} 1');
    answer = () => Promise.resolve([]);
    clock.advance(600_000);
    await expect.poll(() => clock.waits).toEqual([600_000]);
    expect(await store.has(id("lost"))).toBe(false);
    await rm(root, { recursive: true });
    clock.advance(600_000);
    await expect.poll(() => told.filter((line) => line === "the store was not swept to the end")).toHaveLength(2);
    await mkdir(root);
    end.abort();
    await swept;
  });
});
