import { readdir, readFile, rename, rm, stat, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Checkpoint } from "../../src/api/kinds/checkpoint.ts";
import { runProgram } from "../../src/cli/program.ts";
import { findCondition } from "../../src/kube/conditions.ts";
import { memoryIo } from "../setup/memory-io.ts";
import { openCluster, type Cluster } from "./controllers-cluster.ts";
import { realNode } from "./controllers-real-node.ts";
import { count, counterTemplate as template } from "./counter.ts";

/**
 * Real cells and a real store, whose content is removed, unreachable, damaged and put back. At first the controllers notice it
 * themselves; later a restart lets them sweep the store.
 */
let cluster: Cluster;
let id: string;
/** The controllers read it when they start. */
const sweeping = { samplePauseMilliseconds: 100 };

beforeAll(async () => {
  // `ramet doctor` also asks for kinds that Ramet does not need.
  cluster = await openCluster({ startNode: realNode(), allApis: true, sweeping });
  await cluster.namespace("t");
  await create("Sandbox", "a", { template });
  expect(await count(cluster, "a")).toBe(1);
  await create("Checkpoint", "one", { sandboxName: "a" });
  id = (await checkpoint(({ status }) => status?.phase === "Succeeded")).status?.checkpointId ?? "";
});
afterAll(() => cluster.close());

const apiVersion = "agents.kruise.io/v1alpha1";
async function create(kind: string, name: string, spec: object, annotations: Record<string, string> = {}) {
  await cluster.create({ apiVersion, kind, metadata: { name, namespace: "t", annotations }, spec });
}
const checkpoint = (holds: (one: Checkpoint) => boolean) => cluster.checkpoint("t/one", holds);
const data = ({ status }: Checkpoint) => findCondition(status?.conditions, "DataAvailable");
const untilData = (reason: string) => checkpoint((one) => data(one)?.reason === reason);

/** Creates a clone, and returns the phase in which its start ends. */
async function cloned(name: string): Promise<string | undefined> {
  await create("Sandbox", name, {}, { "ramet.dev/restore-from": id });
  const { status } = await cluster.sandbox(`t/${name}`, (one) => /Running|Failed/.test(one.status?.phase ?? ""));
  return status?.phase;
}

/** Runs a command of a user, and returns its output. */
async function ramet(...args: string[]): Promise<string> {
  const io = memoryIo({ environment: { HOME: "/nowhere", KUBECONFIG: cluster.kubeconfigPath } });
  expect(await runProgram(io, [...args, "-n", "t"])).toBe(0);
  return io.written("stdout");
}

/** Returns the finding of `ramet doctor` about the store. */
async function storeFinding(): Promise<{ level: string; message: string }> {
  const io = memoryIo({ environment: { HOME: "/nowhere", KUBECONFIG: cluster.kubeconfigPath } });
  await runProgram(io, ["doctor", "-n", "t", "--timeout", "20s", "-o", "json"]);
  const { findings } = JSON.parse(io.written("stdout")) as {
    findings: { check: string; level: string; message: string }[];
  };
  return findings.find(({ check }) => check === "store") ?? { level: "", message: "" };
}

/** Restarts the controllers, and waits until their first sweep is over. */
async function sweep(): Promise<void> {
  const before = (await storeFinding()).message;
  await cluster.restartControllers();
  await expect.poll(async () => (await storeFinding()).message, { timeout: 30_000 }).not.toBe(before);
}

it("notices that the store was wiped, and that it was put back", async () => {
  await rename(join(cluster.storePath, "t"), `${cluster.storePath}-kept`);
  await untilData("DataMissing");
  await rename(`${cluster.storePath}-kept`, join(cluster.storePath, "t"));
  await untilData("DataFound");
  sweeping.samplePauseMilliseconds = 600_000;
  await sweep();
});

it("says that the data is missing after the store was wiped, without a change of the phase", async () => {
  expect(await ramet("checkpoint", "ls")).toMatch(/one +Succeeded/);
  await rename(join(cluster.storePath, "t"), `${cluster.storePath}-kept`);
  await rm(join(cluster.storePath, "store.json"));
  await sweep();
  const lost = await untilData("DataMissing");
  expect(lost.status).toMatchObject({ phase: "Succeeded", checkpointId: id });
  expect(data(lost)).toMatchObject({
    status: "False",
    message: expect.stringContaining("is not in the store") as string,
  });

  expect(await ramet("checkpoint", "ls")).toMatch(/one +DataMissing +.*is not in the store/);
  expect(await ramet("checkpoint", "get", "one")).toContain("DataMissing");
  const explained = await ramet("explain", "checkpoint/one");
  expect(explained).toMatch(/STATE +stuck \(Succeeded\)/);
  expect(explained).toMatch(/CAUSE +It cannot be cloned: The data of the checkpoint is not in the store/);
  expect(explained).toMatch(/DO +Restore the content of the store, or delete the Checkpoint/);
});

it("says the same after each sweep, and writes it once", async () => {
  const { resourceVersion } = (await untilData("DataMissing")).metadata;
  await sweep();
  expect(await storeFinding()).toMatchObject({
    level: "warning",
    message: expect.stringContaining("no data of 1 checkpoints") as string,
  });
  const { items } = await cluster.seen.checkpoints.resource.list({ namespace: "t" });
  expect(items.map(({ metadata }) => metadata.resourceVersion)).toEqual([resourceVersion]);
});

it("finds data that was put back, of which clones start again", async () => {
  await rename(`${cluster.storePath}-kept`, join(cluster.storePath, "t"));
  await sweep();
  expect(data(await untilData("DataFound"))).toMatchObject({ status: "True" });
  expect((await storeFinding()).level).toBe("ok");
  expect(await ramet("checkpoint", "ls")).toMatch(/one +Succeeded/);
  expect(await cloned("b")).toBe("Running");
  expect(await count(cluster, "b")).toBe(2);
});

it("concludes nothing from a store that cannot be reached", async () => {
  const before = data(await untilData("DataFound"));
  await rename(cluster.storePath, `${cluster.storePath}-away`);
  await sweep();
  expect(await storeFinding()).toMatchObject({
    level: "error",
    message: expect.stringContaining("cannot use the store directory") as string,
  });
  expect(data(await checkpoint(() => true))).toEqual(before);

  // The finding of a capture counts until another one succeeds: cells can lack access that the controllers have.
  await create("Checkpoint", "refused", { sandboxName: "a" });
  await cluster.checkpoint("t/refused", ({ status }) => status?.phase === "Failed");
  await rename(`${cluster.storePath}-away`, cluster.storePath);
  await sweep();
  expect(await storeFinding()).toMatchObject({
    level: "error",
    message: expect.stringMatching(
      /^The last capture could not use the store: The checkpoint t\/refused failed at/,
    ) as string,
  });
  await create("Checkpoint", "accepted", { sandboxName: "a" });
  await cluster.checkpoint("t/accepted", ({ status }) => status?.phase === "Succeeded");
  await expect.poll(async () => (await storeFinding()).level, { timeout: 30_000 }).toBe("ok");
});

it("says that the data is damaged when a restore cannot read it, and that it was found when one can", async () => {
  const image = join(cluster.storePath, "t", "checkpoints", id, "image");
  const files = await Promise.all(
    (await readdir(image)).map(async (name) => ({ name, size: (await stat(join(image, name))).size })),
  );
  const path = join(image, files.sort((one, other) => other.size - one.size)[0]?.name ?? "");
  const content = await readFile(path);
  await truncate(path, 1);
  expect(await cloned("damaged")).toBe("Failed");
  const lost = await untilData("DataDamaged");
  expect(lost.status?.phase).toBe("Succeeded");
  expect(await ramet("checkpoint", "ls")).toMatch(/one +DataDamaged/);

  // The manifest is in the store, which does not say that its content is whole.
  await sweep();
  expect(data(await checkpoint(() => true))).toEqual(data(lost));
  await writeFile(path, content);
  expect(await cloned("c")).toBe("Running");
  expect(data(await untilData("DataFound"))).toMatchObject({ status: "True" });
});

it("says that the data is missing when a restore does not find it", async () => {
  await rm(join(cluster.storePath, "t"), { recursive: true });
  expect(await cloned("d")).toBe("Failed");
  await untilData("DataMissing");
});
