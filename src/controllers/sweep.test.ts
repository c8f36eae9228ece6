import { mkdir, mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ManualClock } from "../../test/setup/manual-clock.ts";
import { publish, shiftedClock } from "../../test/contract/store/harness.ts";
import { Checkpoint } from "../api/kinds/checkpoint.ts";
import { Sandbox } from "../api/kinds/sandbox.ts";
import { RametError } from "../base/errors.ts";
import { cellBackend } from "../backends/cell-backend.ts";
import { Backends } from "../backends/backends.ts";
import { labels } from "../api/names/labels.ts";
import type { Backend, CheckpointName } from "../backends/backend.ts";
import { CellClient } from "../cell/client/cell-client.ts";
import { cellCredentials, newCellCredentials } from "../backends/cluster-keys.ts";
import type { Log } from "../base/log.ts";
import { openForWrite } from "../store/open.ts";
import { directoryStore } from "../store/directory/store.ts";
import { controllersMetrics } from "./metrics.ts";
import type { DataFinding } from "./cluster/data-findings.ts";
import { livenessIn, runSweeper } from "./sweep.ts";

const hour = 3_600_000;

/** A stand-in for the backend of volumes: it only reports the checkpoints of which it has some. */
function volumesBackend(kept: readonly string[]): Backend {
  const swept = { checkpoints: [], orphans: 0, contents: 0, freedBytes: 0, foreign: [] };
  const backend: Partial<Backend> = {
    name: "csi",
    fillClaim: () => Promise.reject(new RametError("Internal", "a stand-in")),
    probe: () => Promise.resolve({ contents: [] }),
    sweep: () => Promise.resolve({ ...swept, kept: kept.map((checkpointId) => ({ namespace: "t", checkpointId })) }),
  };
  return backend as Backend;
}

describe("sweeping the store", () => {
  let root: string;
  /** Milliseconds by which the store's clock is ahead. */
  let later = 0;
  const storeClock = shiftedClock(() => later);
  beforeEach(async () => {
    root = await mkdtemp(join(tmpdir(), "ramet-"));
    later = 0;
  });
  afterEach(() => rm(root, { recursive: true, force: true }));

  interface World {
    /** A backend that captures volumes, and has those of these checkpoints. */
    volumesOf?: readonly string[];
    objects: () => Promise<Checkpoint[]>;
    cached?: Checkpoint[];
    follows?: (namespace: string) => boolean;
  }

  /** The real store and backend, with these objects in the API and `cached` in the informer. */
  function open({ objects, cached = [], follows = () => true, volumesOf }: World) {
    const clock = new ManualClock();
    const store = directoryStore({ root, clock: storeClock });
    const logged: string[] = [];
    const write = (_: object, message: string) => logged.push(message);
    const log: Log = { debug: write, info: write, warn: write, error: write };
    const metrics = controllersMetrics();
    const end = new AbortController();
    const checkpoints = {
      follows,
      store: { list: () => cached },
      resource: { list: async () => ({ items: await objects(), resourceVersion: "1" }) },
      sandboxes: { list: () => Promise.resolve({ items: [], resourceVersion: "1" }) },
    };
    const credentials = cellCredentials(newCellCredentials());
    const cells = new CellClient(credentials.key);
    const backends = new Backends([
      cellBackend({ cells, credentials, store }),
      ...(volumesOf ? [volumesBackend(volumesOf)] : []),
    ]);
    const found: string[] = [];
    const findings = new Map<string, DataFinding>();
    const dataFindings = {
      get: ({ checkpointId }: CheckpointName) => findings.get(checkpointId),
      report: ({ checkpointId }: CheckpointName, finding: DataFinding) => {
        findings.set(checkpointId, finding);
        found.push(`${checkpointId} ${finding.state}`);
      },
    };
    const reports: (string | undefined)[] = [];
    const storeReports = {
      checked: ({ problem, dataMissing }: { problem: RametError | undefined; dataMissing: number | undefined }) => {
        reports.push(problem === undefined ? `${dataMissing ?? "?"} missing` : problem.code);
        return Promise.resolve();
      },
    };
    const options = { backends, checkpoints, dataFindings, storeReports, clock, log, metrics: metrics.sweeps };
    const sweep = () =>
      runSweeper(options, end.signal).finally(() => {
        cells.close();
      });
    return { found, reports, store, clock, sweep, logged, end, counted: () => metrics.registry.metrics() };
  }
  const part = {
    backend: "cell",
    handle: `sha256:${"0".repeat(64)}`,
    contents: ["filesystem"],
    cutAt: "2030-01-01T00:00:00Z",
    sizeBytes: 0,
    consistency: "atomic",
  };
  const object = (checkpointId: string, phase = "Succeeded") =>
    Checkpoint.parse({
      apiVersion: "agents.kruise.io/v1alpha1",
      kind: "Checkpoint",
      metadata: { name: checkpointId, namespace: "t", uid: checkpointId, resourceVersion: "1", creationTimestamp: "" },
      spec: { podName: "a" },
      status: { phase, checkpointId, ramet: { parts: [part] } },
    });
  /** A checkpoint of a paused sandbox: with memory and files of the pause, and a volume. */
  const sharing = (checkpointId: string, dataOf: string) => {
    const part = { handle: "h", cutAt: "2026-01-01T00:00:00Z", sizeBytes: 1, consistency: "crash" };
    const parts = [
      { ...part, backend: "csi", contents: ["volumes"] },
      { ...part, backend: "cell", contents: ["memory", "filesystem"] },
    ];
    const { metadata, status, ...rest } = object(checkpointId);
    const own = { ...metadata, labels: { [labels.dataOf]: dataOf } };
    return Checkpoint.parse({ ...rest, metadata: own, status: { ...status, ramet: { parts } } });
  };
  const id = (checkpointId: string) => ({ namespace: "t", checkpointId });
  const files = { "checkpoint.img": "x" };

  it("removes data without an object that is older than every grant, at start and every ten minutes", async () => {
    const { store, clock, sweep, end, logged, counted } = open({ objects: () => Promise.resolve([object("kept")]) });
    await publish({ store, clock: storeClock }, id("kept"), files);
    await publish({ store, clock: storeClock }, id("lost"), { "checkpoint.img": "only here" });
    const session = await openForWrite(await store.grantWrite({ ...id("orphan"), ttlMilliseconds: 60_000 }), {
      clock: storeClock,
    });
    await writeFile(join(session.stagingPath, "pages.img"), "of a cell that was killed");
    const swept = sweep();
    await expect.poll(() => clock.waits).toEqual([30_000]);
    expect(await store.has(id("lost"))).toBe(true);
    later = hour + 60_000;
    clock.advance(600_000);
    await expect.poll(() => clock.waits).toEqual([30_000]);
    end.abort();
    await swept;
    expect([await store.has(id("kept")), await store.has(id("lost"))]).toEqual([true, false]);
    expect(await store.usage("t")).toMatchObject({ checkpoints: 1, stagingBytes: 0 });
    expect(logged).toEqual(["removed checkpoint data without an object from the store", "swept the store"]);
    const metrics = await counted();
    expect(metrics).toContain('ramet_store_sweeps_total{result="success"} 2');
    expect(metrics).toContain('ramet_store_swept_total{what="checkpoints"} 1');
    expect(metrics).toContain('ramet_store_swept_total{what="rests"} 1');
  });

  it("finds finished checkpoints without data, again in each sweep, but not while the store is unreachable", async () => {
    const cached = [object("whole"), object("gone"), object("begun", "Creating"), object("failed", "Failed")];
    const objects = () => Promise.resolve([]);
    const { store, clock, sweep, end, found, reports, logged, counted } = open({ objects, cached });
    const next = async () => {
      found.splice(0);
      clock.advance(600_000);
      await expect.poll(() => clock.waits).toEqual([30_000]);
      return found;
    };
    await publish({ store, clock: storeClock }, id("whole"), files);
    const swept = sweep();
    await expect.poll(() => clock.waits).toEqual([30_000]);
    expect(found).toEqual(["whole present", "gone missing"]);
    expect(logged).toContain("the data of checkpoints is missing in the store");
    expect(await counted()).toContain("ramet_checkpoints_data_missing 1");
    await rename(root, `${root}-away`);
    expect(await next()).toEqual([]);
    expect(logged).toContain("sweeping the store failed");
    await rename(`${root}-away`, root);
    expect(await next()).toEqual(["whole present", "gone missing"]);
    await rm(join(root, "t"), { recursive: true });
    expect(await next()).toEqual(["whole missing", "gone missing"]);
    expect(reports).toEqual(["1 missing", "StoreUnavailable", "1 missing", "2 missing"]);
    end.abort();
    await swept;
  });

  it("finds the volumes of a checkpoint that shares the files of a pause, whoever has captured them", async () => {
    const cached = [object("pause"), sharing("own", "pause"), sharing("shared", "source"), sharing("lost", "pause")];
    const volumesOf = ["own", "source"];
    const { store, clock, sweep, end, found } = open({ objects: () => Promise.resolve([]), cached, volumesOf });
    await publish({ store, clock: storeClock }, id("pause"), files);
    await publish({ store, clock: storeClock }, id("source"), files);
    const swept = sweep();
    await expect.poll(() => clock.waits).toEqual([30_000]);
    expect(found.toSorted()).toEqual([
      "lost missing",
      "own present",
      "pause present",
      "shared present",
      "source present",
    ]);
    end.abort();
    await swept;
  });

  it("sweeps early when a sampled checkpoint is missing, or is there again, but not while nothing can be told", async () => {
    const cached = [object("one"), object("two"), object("never")];
    const { store, clock, sweep, end, found, logged } = open({ objects: () => Promise.resolve([]), cached });
    await publish({ store, clock: storeClock }, id("one"), files);
    await publish({ store, clock: storeClock }, id("two"), files);
    const swept = sweep();
    await expect.poll(() => clock.waits).toEqual([30_000]);
    const after = async (milliseconds: number) => {
      found.splice(0);
      clock.advance(milliseconds);
      await expect.poll(() => clock.waits).toEqual([30_000]);
      return found;
    };
    for (let sample = 0; sample < 6; sample += 1) expect(await after(30_000)).toEqual([]);
    await rename(root, `${root}-away`);
    for (let sample = 0; sample < 3; sample += 1) expect(await after(30_000)).toEqual([]);
    expect(logged).not.toContain("sweeping the store failed");
    await rename(`${root}-away`, root);
    await rename(join(root, "t"), `${root}-kept`);
    expect(await after(30_000)).toEqual(["one missing", "two missing", "never missing"]);
    expect(await after(30_000)).toEqual([]);
    await rename(`${root}-kept`, join(root, "t"));
    // The first sample is of the checkpoint that was never there.
    expect(await after(30_000)).toEqual([]);
    expect(await after(30_000)).toEqual(["one present", "two present", "never missing"]);
    end.abort();
    await swept;
  });

  it("keeps a checkpoint that only the cache has, and one that is still being captured", async () => {
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
    await expect.poll(() => clock.waits).toEqual([30_000]);
    end.abort();
    await swept;
    expect(await store.has(id("cached"))).toBe(true);
    expect((await store.usage("t")).stagingBytes).toBeGreaterThan(0);
  });

  const onLayer = (checkpointId: string, layer: string, phase?: string) => {
    const { status, ...rest } = object(checkpointId, phase);
    const layers = [{ checkpointId: layer, manifestDigest: part.handle, sizeBytes: 1 }];
    return Checkpoint.parse({ ...rest, status: { ...status, ramet: { parts: [{ ...part, layers }] } } });
  };

  it("finds checkpoints whose layers are missing", async () => {
    const clones = [onLayer("whole", "layer"), onLayer("broken", "lost")];
    const { store, found, clock, sweep, end } = open({ objects: () => Promise.resolve(clones), cached: clones });
    for (const name of ["whole", "broken", "layer"]) await publish({ store, clock: storeClock }, id(name), files);
    const swept = sweep();
    await expect.poll(() => clock.waits).toEqual([30_000]);
    expect(found.toSorted()).toEqual(["broken missing", "whole present"]);
    // The samples see the same, so none of them causes another sweep.
    for (const left of [30_000, 30_000]) {
      clock.advance(left);
      await expect.poll(() => clock.waits).toEqual([30_000]);
    }
    end.abort();
    await swept;
    expect(found).toHaveLength(2);
  });

  it("keeps a layer while a checkpoint or a sandbox refers to it", async () => {
    const sandbox = Sandbox.parse({
      apiVersion: "agents.kruise.io/v1alpha1",
      kind: "Sandbox",
      metadata: { name: "a", namespace: "t", uid: "a", resourceVersion: "1", creationTimestamp: "" },
      spec: {},
      status: { phase: "Running", ramet: { layers: ["of-sandbox"] } },
    });
    const none = { items: [], resourceVersion: "1" };
    const liveness = livenessIn(
      {
        store: { list: () => [onLayer("clone", "of-checkpoint"), onLayer("failed", "of-failed", "Failed")] },
        resource: { list: () => Promise.resolve(none) },
        sandboxes: { list: () => Promise.resolve({ ...none, items: [sandbox] }) },
      },
      new AbortController().signal,
    );
    const layers = ["of-checkpoint", "of-sandbox", "of-failed", "of-none"];
    expect(await Promise.all(layers.map((layer) => liveness(id(layer))))).toEqual([
      "finished",
      "finished",
      "absent",
      "absent",
    ]);
  });

  it("keeps layers while a capture is not adopted whose sandbox was deleted, as it may be on them", async () => {
    const { metadata, ...rest } = onLayer("capture", "none");
    const checkpoint = (phase: string): Checkpoint => ({
      ...rest,
      metadata,
      spec: { ...rest.spec, sandboxName: "deleted" },
      status: { phase },
    });
    const none = { items: [], resourceVersion: "1" };
    const livenessWith = (phase: string) =>
      livenessIn(
        {
          store: { list: () => [checkpoint(phase)] },
          resource: { list: () => Promise.resolve(none) },
          sandboxes: { list: () => Promise.resolve(none) },
        },
        new AbortController().signal,
      )(id("layer"));
    expect(await livenessWith("Creating")).toBe("unfinished");
    expect(await livenessWith("Pending")).toBe("absent");
  });

  it("keeps the data of namespaces that the controllers do not serve, without asking about them", async () => {
    const objects = () => Promise.reject(new RametError("Forbidden", "not served"));
    const { store, clock, sweep, end, logged } = open({ objects, follows: (namespace) => namespace !== "t" });
    await publish({ store, clock: storeClock }, id("foreign"), files);
    const session = await openForWrite(await store.grantWrite({ ...id("begun"), ttlMilliseconds: 60_000 }), {
      clock: storeClock,
    });
    await writeFile(join(session.stagingPath, "pages.img"), "of another cell");
    later = hour + 60_000;
    const swept = sweep();
    await expect.poll(() => clock.waits).toEqual([30_000]);
    end.abort();
    await swept;
    expect(await store.has(id("foreign"))).toBe(true);
    expect((await store.usage("t")).stagingBytes).toBeGreaterThan(0);
    expect(logged).toEqual([]);
  });

  it("removes nothing if the API server or the store does not respond, and tries again", async () => {
    let answer: () => Promise<Checkpoint[]> = () => Promise.reject(new RametError("Unavailable", "no API server"));
    const { store, clock, sweep, end, logged, counted } = open({ objects: () => answer() });
    await publish({ store, clock: storeClock }, id("lost"), files);
    later = hour + 60_000;
    const swept = sweep();
    await expect.poll(() => clock.waits).toEqual([30_000]);
    expect(await store.has(id("lost"))).toBe(true);
    expect(logged).toEqual(["sweeping the store failed"]);
    expect(await counted()).toContain('ramet_store_sweeps_total{result="error"} 1');
    answer = () => Promise.resolve([]);
    clock.advance(600_000);
    await expect.poll(() => clock.waits).toEqual([30_000]);
    expect(await store.has(id("lost"))).toBe(false);
    await rm(root, { recursive: true });
    clock.advance(600_000);
    await expect.poll(() => logged.filter((line) => line === "sweeping the store failed")).toHaveLength(2);
    await mkdir(root);
    end.abort();
    await swept;
  });
});
