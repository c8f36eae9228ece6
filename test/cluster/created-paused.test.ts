import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Sandbox } from "../../src/api/kinds/sandbox.ts";
import { annotations } from "../../src/api/names/labels.ts";
import { runProgram } from "../../src/cli/program.ts";
import { findCondition } from "../../src/kube/conditions.ts";
import { memoryIo } from "../setup/memory-io.ts";
import { openCluster, type Cluster } from "./controllers-cluster.ts";
import { realNode } from "./controllers-real-node.ts";
import { count, counterTemplate as template } from "./counter.ts";

/** Real cells and real gVisor: a clone that is created paused has its checkpoint as its stored state, and no Pod until it is resumed. */
let cluster: Cluster;
/** The checkpoint of the running sandbox `a`, which has counted to 1. */
let id: string;
/** The names of all Pods that were ever there. */
const pods = new Set<string>();

beforeAll(async () => {
  cluster = await openCluster({ startNode: realNode() });
  cluster.seen.pods.store.subscribe(({ object }) => pods.add(object.metadata.name));
  await cluster.namespace("t");
  await create("Sandbox", "a", { template });
  expect(await count(cluster, "a")).toBe(1);
  await create("Checkpoint", "one", { sandboxName: "a" });
  const { status } = await cluster.checkpoint("t/one", ({ status: now }) => now?.completionTime !== undefined);
  id = status?.checkpointId ?? "";
});
afterAll(() => cluster.close());

const apiVersion = "agents.kruise.io/v1alpha1";
async function create(kind: string, name: string, spec: object, notes: Record<string, string> = {}): Promise<void> {
  await cluster.create({ apiVersion, kind, metadata: { name, namespace: "t", annotations: notes }, spec });
}
const clone = (name: string, spec: object = { paused: true }, from = id) =>
  create("Sandbox", name, spec, { "ramet.dev/restore-from": from });
const inPhase = (name: string, ...phases: string[]): Promise<Sandbox> =>
  cluster.sandbox(`t/${name}`, ({ status }) => phases.includes(status?.phase ?? ""));
const setPaused = (name: string, paused: boolean) =>
  cluster.seen.sandboxes.resource.mergePatch({ namespace: "t", name }, { spec: { paused } });
const pauseCheckpoints = () =>
  cluster.seen.checkpoints.store.list().filter(({ metadata }) => metadata.labels?.["ramet.dev/purpose"] === "pause");
/** The ids under which the store has data. */
const stored = () => readdir(join(cluster.storePath, "t", "checkpoints"));
const eventually = { timeout: 30_000 };

async function ramet(...args: string[]) {
  const io = memoryIo({ environment: { HOME: "/nowhere", KUBECONFIG: cluster.kubeconfigPath } });
  const exitCode = await runProgram(io, [...args, "-n", "t"]);
  return { exitCode, stdout: io.written("stdout"), stderr: io.written("stderr") };
}

it("becomes Paused without a Pod, and continues from the checkpoint when it is resumed", async () => {
  await clone("b");
  const { status } = await inPhase("b", "Paused", "Running", "Failed");
  expect(status).toMatchObject({ phase: "Paused", ramet: { restoredFrom: id } });
  expect(findCondition(status?.conditions, "SandboxPaused")).toMatchObject({
    status: "True",
    reason: "SnapshotPauseSucceed",
    message: `The sandbox continues from the checkpoint ${id} when it is resumed`,
  });
  expect(findCondition(status?.conditions, "Ready")).toBeUndefined();
  await cluster.restartControllers();
  expect((await ramet("explain", "sandbox/b")).stdout).toMatch(/CAUSE +It is paused, as spec.paused requests/);
  expect(pods).not.toContain("b");

  expect(await ramet("sandbox", "resume", "b")).toMatchObject({ exitCode: 0 });
  expect(await count(cluster, "b")).toBe(2);
  // The checkpoint of the pause is not needed any more, and nothing pauses the sandbox again.
  await expect.poll(pauseCheckpoints, eventually).toEqual([]);
  expect((await inPhase("b", "Running")).status?.ramet?.restoredFrom).toBe(id);
  expect(await stored()).toEqual([id]);

  await setPaused("b", true);
  await inPhase("b", "Paused");
  await setPaused("b", false);
  expect(await count(cluster, "b")).toBe(3);
});

it("is captured, cloned and rolled back as any paused sandbox, without a Pod", async () => {
  await clone("c");
  await inPhase("c", "Paused");
  await create("Checkpoint", "two", { sandboxName: "c" });
  const { status } = await cluster.checkpoint("t/two", ({ status: now }) => now?.completionTime !== undefined);
  expect(status?.phase).toBe("Succeeded");
  await clone("of-c", {}, status?.checkpointId);
  expect(await count(cluster, "of-c")).toBe(2);
  await create("Checkpoint", "three", { sandboxName: "of-c" });
  const three = await cluster.checkpoint("t/three", ({ status: now }) => now?.phase === "Succeeded");

  const request = { [annotations.rollbackTo]: three.status?.checkpointId, [annotations.rollbackRequest]: "1" };
  await cluster.seen.sandboxes.resource.mergePatch(
    { namespace: "t", name: "c" },
    { metadata: { annotations: request } },
  );
  await cluster.sandbox("t/c", (one) => findCondition(one.status?.conditions, "RolledBack")?.status === "True");
  expect(pods).not.toContain("c");
  await setPaused("c", false);
  expect(await count(cluster, "c")).toBe(3);
  await expect.poll(pauseCheckpoints, eventually).toEqual([]);
  expect((await inPhase("c", "Running")).spec.paused).toBe(false);
});

it("is resumed by a request that comes before it is Paused", async () => {
  await clone("d");
  await setPaused("d", false);
  expect(await count(cluster, "d")).toBe(2);
  await expect.poll(pauseCheckpoints, eventually).toEqual([]);
  expect((await inPhase("d", "Running")).status?.phase).toBe("Running");
});

it("starts and is then paused, without a checkpoint to restore from", async () => {
  await create("Sandbox", "new", { template, paused: true });
  await inPhase("new", "Paused");
  expect(pods).toContain("new");
  expect((await ramet("sandbox", "rm", "new")).exitCode).toBe(0);
  await cluster.untilDeleted("sandboxes", "t/new");
});

it("is made by ramet fork --paused and ramet sandbox create --paused, also from a capture that has not finished", async () => {
  expect(await ramet("fork", "a", "--count", "2", "--name-prefix", "f", "--paused")).toMatchObject({
    exitCode: 0,
    stdout: "f-1\nf-2\n",
  });
  expect(await ramet("sandbox", "create", "--from", id, "--name", "g", "--paused")).toMatchObject({ stdout: "g\n" });
  for (const name of ["f-1", "f-2", "g"]) {
    expect((await inPhase(name, "Paused")).spec.paused).toBe(true);
    expect(pods).not.toContain(name);
  }
  // The checkpoint of the fork is deleted, and its clones keep the data.
  await expect
    .poll(
      () => cluster.seen.checkpoints.store.list().filter(({ metadata }) => metadata.name.startsWith("a-fork")),
      eventually,
    )
    .toEqual([]);
  expect(await ramet("sandbox", "resume", "f-2")).toMatchObject({ exitCode: 0 });
  expect(await count(cluster, "f-2")).toBe(2);

  const refused = await ramet("sandbox", "create", "--template", "x", "--paused");
  expect(refused).toMatchObject({ exitCode: 2, stderr: expect.stringContaining("--from") as string });
});

it("keeps the data after the checkpoint was deleted, and frees it with the last clone", async () => {
  for (const name of ["one", "two", "three"]) await cluster.seen.checkpoints.resource.delete({ namespace: "t", name });
  for (const name of ["one", "two", "three"]) await cluster.untilDeleted("checkpoints", `t/${name}`);
  expect(await stored()).toContain(id);
  await setPaused("g", false);
  expect(await count(cluster, "g")).toBe(2);
  await cluster.seen.sandboxes.resource.delete({ namespace: "t", name: "f-1" });
  await cluster.untilDeleted("sandboxes", "t/f-1");
  await expect.poll(stored, eventually).toEqual([]);
});

it("fails with the reason when the checkpoint has lost its data", async () => {
  await create("Checkpoint", "gone", { sandboxName: "a" });
  const { status } = await cluster.checkpoint("t/gone", ({ status: now }) => now?.phase === "Succeeded");
  await rm(join(cluster.storePath, "t", "checkpoints", status?.checkpointId ?? ""), { recursive: true });
  await clone("h", { paused: true }, status?.checkpointId);
  const failed = await inPhase("h", "Failed", "Paused");
  expect(findCondition(failed.status?.conditions, "Ready")).toMatchObject({
    reason: "CheckpointLost",
    message: expect.stringContaining("no data of it exists") as string,
  });
});
