import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import { memoryIo } from "../setup/memory-io.ts";
import { runProgram } from "../../src/cli/program.ts";
import { runCollector } from "../../src/controllers/collect/run-collector.ts";
import { controllersMetrics } from "../../src/controllers/metrics.ts";
import { systemClock } from "../../src/base/clock.ts";
import { silentLog } from "../../src/base/log.ts";
import { directoryStore } from "../../src/store/directory/store.ts";
import { openForWrite } from "../../src/store/open.ts";
import { ManualClock } from "../setup/manual-clock.ts";
import { publish, writeFiles } from "../contract/store/harness.ts";
import { openCluster, type Cluster } from "./controllers-cluster.ts";
import { StandInNode } from "./controllers-stand-in-node.ts";

/**
 * Tests which objects the collector and `ramet gc` delete on a real API server. The controllers do not run, so that they do not
 * change the objects. Other tests prove that deleted objects lose their data.
 */
let cluster: Cluster;
const agents = "agents.kruise.io/v1alpha1";
const digest = (step: number) => `sha256:${String(step).padStart(64, "0")}`;
const gibibyte = 1024 ** 3;
let count = 0;
let namespace: string;

beforeAll(async () => {
  cluster = await openCluster({ startNode: new StandInNode().start });
  await cluster.stopControllers();
});
afterAll(() => cluster.close());
beforeEach(async () => {
  namespace = `gc-${++count}`;
  await cluster.namespace(namespace);
});
// The collector works on all namespaces.
afterEach(() => ramet("--step-cache-bytes", "0"));

async function ramet(...args: string[]) {
  // Two hours later, so that the data in the store is old enough to be swept.
  const clock = { ...systemClock, now: () => new Date(Date.now() + 7_200_000) };
  const io = memoryIo({ clock, environment: { XDG_DATA_HOME: "/nowhere", KUBECONFIG: cluster.kubeconfigPath } });
  const exitCode = await runProgram(io, ["gc", ...args, "-n", namespace]);
  return { exitCode, stdout: io.written("stdout"), stderr: io.written("stderr") };
}

/** Creates a captured step of 8 GiB that has been unneeded since `day` January. */
async function stepCache(step: number, day: number): Promise<void> {
  const name = `step-${step}`;
  const { resource } = cluster.seen.checkpoints;
  await cluster.create({
    apiVersion: agents,
    kind: "Checkpoint",
    metadata: {
      name,
      namespace,
      labels: { "ramet.dev/purpose": "step" },
      annotations: { "ramet.dev/step-digest": digest(step), "ramet.dev/unneeded-since": `2026-01-0${day}T00:00:00Z` },
    },
    spec: { sandboxName: "builder" },
  });
  await resource.mergePatch(
    { namespace, name },
    { status: { phase: "Succeeded", checkpointId: `id-${step}`, ramet: { sizeBytes: 8 * gibibyte } } },
    { subresource: "status" },
  );
}

/** Creates a named snapshot whose recipe has this step, with the status that its controller writes. */
async function recipeWith(step: number): Promise<void> {
  await cluster.create({
    apiVersion: "ramet.dev/v1alpha1",
    kind: "NamedSnapshot",
    metadata: { name: "s", namespace },
    spec: { from: { template: { name: "base" } }, recipe: [{ run: "x" }] },
  });
  await cluster.seen.snapshots.resource.mergePatch(
    { namespace, name: "s" },
    {
      status: {
        observedGeneration: 1,
        steps: [{ digest: digest(step), step: "run x", cached: false, state: "Succeeded" }],
      },
    },
    { subresource: "status" },
  );
}

async function remaining(): Promise<string[]> {
  const { checkpoints, templates } = cluster.seen;
  const all = await Promise.all([checkpoints.resource.list({ namespace }), templates.resource.list({ namespace })]);
  return all.flatMap(({ items }) => items.map(({ metadata }) => metadata.name)).sort();
}

async function someGarbage(): Promise<void> {
  await stepCache(1, 1);
  await stepCache(2, 2);
  await stepCache(3, 3);
  await recipeWith(1);
  const owner = { apiVersion: agents, kind: "Checkpoint", name: "gone", uid: "gone", controller: true };
  await cluster.create({
    apiVersion: agents,
    kind: "SandboxTemplate",
    metadata: { name: "orphan", namespace, ownerReferences: [owner] },
    spec: { template: { spec: { containers: [] } } },
  });
}

it("lists garbage and its causes in a dry run, and deletes nothing", async () => {
  await someGarbage();
  const { exitCode, stdout } = await ramet("--dry-run");
  expect(exitCode).toBe(0);
  expect(stdout.split("\n")).toEqual([
    expect.stringMatching(/^KIND +NAME +SIZE +OUTCOME +WHY$/) as string,
    expect.stringMatching(/^Checkpoint +step-2 +8GiB +goes +captured step that no recipe has had since/) as string,
    expect.stringMatching(/^SandboxTemplate +orphan +goes +belonged to Checkpoint gone, which no longer/) as string,
    "Would remove 2 objects, at most 8GiB of data.",
    "16GiB of data is kept:",
    expect.stringMatching(/^KEPT +UNIQUE +SHARED +WHY$/) as string,
    expect.stringMatching(/^checkpoint\/step-1 +8GiB +0B +another object refers to it$/) as string,
    expect.stringMatching(/^checkpoint\/step-3 +8GiB +0B +no object refers to it, delete it if you do/) as string,
    "",
  ]);
  expect(await remaining()).toEqual(["orphan", "step-1", "step-2", "step-3"]);
});

it("deletes garbage without --dry-run, and finds nothing in a second run", async () => {
  await someGarbage();
  const { exitCode, stdout } = await ramet("-o", "json");
  expect(exitCode).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({
    dryRun: false,
    items: [
      { garbage: "StepCache", kind: "Checkpoint", name: "step-2", bytes: 8 * gibibyte, outcome: "removed" },
      { garbage: "OwnerGone", kind: "SandboxTemplate", name: "orphan", outcome: "removed" },
    ],
    total: { objects: 2, bytes: 8 * gibibyte },
    keptBytes: 16 * gibibyte,
    kept: [
      { kind: "checkpoint", name: "step-1", uniqueBytes: 8 * gibibyte, sharedBytes: 0 },
      { kind: "checkpoint", name: "step-3", uniqueBytes: 8 * gibibyte, sharedBytes: 0 },
    ],
  });
  expect(await remaining()).toEqual(["step-1", "step-3"]);
  expect(await ramet()).toEqual({
    exitCode: 0,
    stdout: "",
    stderr:
      `Nothing to delete in namespace ${namespace}.\n` +
      "The store was not swept: it is not on this machine (set --store-path to its directory)\n",
  });
});

it("reports in a dry run exactly what a run without --dry-run then removes from the store", async () => {
  const store = directoryStore({ root: cluster.storePath });

  await stepCache(1, 1);
  await recipeWith(1);
  await publish({ store }, { namespace, checkpointId: "id-1" }, { "pages.img": "of step 1" });
  // No Checkpoint has this id. Another namespace, which this run does not sweep, has its second file too.
  await publish({ store }, { namespace, checkpointId: "lost" }, { "pages.img": "of step 1", "checkpoint.img": "lost" });
  await publish({ store }, { namespace: "elsewhere", checkpointId: "lost" }, { "checkpoint.img": "lost" });
  const grant = await store.grantWrite({ namespace, checkpointId: "half", ttlMilliseconds: 60_000 });
  await writeFiles((await openForWrite(grant)).stagingPath, { "pages.img": "half" });
  const before = await store.usage(namespace);

  const at = ["--store-path", cluster.storePath] as const;
  const { store: planned } = JSON.parse((await ramet(...at, "--dry-run", "-o", "json")).stdout) as { store: object };
  expect(planned).toMatchObject({
    path: cluster.storePath,
    removedCheckpoints: [{ namespace, checkpointId: "lost" }],
    removedRests: 1,
    removedContents: 0,
    foreign: [],
  });
  const details = "1 checkpoint without an object, 1 file of an interrupted operation";
  expect((await ramet(...at, "--dry-run")).stdout).toMatch(
    new RegExp(`would lose ${details}: \\d[\\d.]*(B|KiB)\\.\\n8GiB of data is kept:\\n`),
  );
  expect(await store.usage(namespace)).toEqual(before);

  const real = await ramet(...at, "-o", "json");
  expect(real.exitCode).toBe(0);
  expect((JSON.parse(real.stdout) as { store: object }).store).toEqual(planned);
  expect(await store.usage(namespace)).toMatchObject({ checkpoints: 1, contents: 1, contentBytes: 9, stagingBytes: 0 });
  expect(await store.has({ namespace: "elsewhere", checkpointId: "lost" })).toBe(true);
  expect((await ramet(...at)).stderr).toBe(`Nothing to delete in namespace ${namespace}.\n`);
});

it("rejects the store of another cluster before it deletes anything, and does not find a missing directory", async () => {
  await someGarbage();
  const foreign = await mkdtemp(join(tmpdir(), "ramet-store-"));
  await directoryStore({ root: foreign }).bind("another");
  const refused = await ramet("--store-path", foreign);
  expect(refused).toMatchObject({ exitCode: 1, stdout: "" });
  expect(refused.stderr).toContain("[StoreOfAnotherCluster]");
  expect(await ramet("--store-path", join(foreign, "none"))).toMatchObject({ exitCode: 3, stdout: "" });
  expect(await remaining()).toHaveLength(4);
  await rm(foreign, { recursive: true });
});

it("deletes with a budget of 0 exactly the captured steps that no recipe has", async () => {
  await someGarbage();
  await ramet("--step-cache-bytes", "0");
  expect(await remaining()).toEqual(["step-1"]);
});

it("shows when times to live end, and leaves the deletion to their controllers", async () => {
  await cluster.create({
    apiVersion: agents,
    kind: "SandboxClaim",
    metadata: { name: "c", namespace },
    spec: { templateName: "pool", ttlAfterCompleted: "60m" },
  });
  await cluster.seen.claims.resource.mergePatch(
    { namespace, name: "c" },
    { status: { phase: "Completed", completionTime: "2026-01-01T00:00:00Z" } },
    { subresource: "status" },
  );
  expect((await ramet()).stdout).toMatch(
    /^SandboxClaim +c +due +its time to live ends at 2026-01-01T01:00.*\nRemoved 0 objects/m,
  );
  expect((await cluster.seen.claims.resource.list({ namespace })).items).toHaveLength(1);
});

it("rejects a budget that is not a number", async () => {
  expect(await ramet("--step-cache-bytes", "20Gi")).toMatchObject({ exitCode: 2 });
});

it("deletes the same in the periodic collector, counts it, and continues after a failed API request", async () => {
  await someGarbage();
  const informers = cluster.seen;
  await cluster.checkpoint(`${namespace}/step-3`, ({ status }) => status?.phase === "Succeeded");
  await expect.poll(() => informers.templates.store.get(`${namespace}/orphan`)).toBeDefined();
  await expect.poll(() => informers.snapshots.store.get(`${namespace}/s`)?.status?.steps).toHaveLength(1);
  const clock = new ManualClock();
  const metrics = controllersMetrics();
  const end = new AbortController();
  const details: string[] = [];
  const log = { ...silentLog, warn: (_: object, message: string) => details.push(message) };
  let answers = false;
  const templates = new Proxy(informers.templates, {
    get: (target, key) => {
      if (key !== "listNow") return Reflect.get(target, key, target) as unknown;
      return answers ? target.listNow.bind(target) : () => Promise.reject(new Error("no answer"));
    },
  });
  const running = runCollector(
    { informers: { ...informers, templates }, clock, log, metrics: metrics.collections },
    end.signal,
  );
  clock.advance(600_000);
  await expect.poll(() => details).toEqual(["garbage collection failed"]);
  expect(await remaining()).toEqual(["orphan", "step-1", "step-2", "step-3"]);
  answers = true;
  await expect
    .poll(async () => {
      clock.advance(600_000);
      return remaining();
    })
    .toEqual(["step-1", "step-3"]);
  end.abort();
  await running;
  const counted = await metrics.registry.metrics();
  expect(counted).toContain('ramet_garbage_collected_bytes_total{garbage="StepCache"} 8589934592');
  expect(counted).toContain('ramet_garbage_collected_total{garbage="OwnerGone"} 1');
  expect(counted).toContain("ramet_garbage_failures_total 1");
});
