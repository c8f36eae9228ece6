import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Sandbox } from "../../src/api/kinds/sandbox.ts";
import { clusterCredentials } from "../../src/backends/cluster-keys.ts";
import { CellClient } from "../../src/cell/client/cell-client.ts";
import { openCluster, type Cluster } from "./controllers-cluster.ts";
import { counterScript } from "../setup/counter.ts";
import { count, counterTemplate as template } from "./counter.ts";
import { realNode } from "./controllers-real-node.ts";

/** Tests sandboxes, checkpoints and clones with real cells and real gVisor, and that a clone has the memory. */
let cluster: Cluster;

beforeAll(async () => {
  cluster = await openCluster({ startNode: realNode({ commands: { counter: ["python3", "-c", counterScript] } }) });
  await cluster.namespace("t");
});
afterAll(() => cluster.close());

const apiVersion = "agents.kruise.io/v1alpha1";
/** A template without a command: the image has one. */
const imageTemplate = {
  spec: {
    terminationGracePeriodSeconds: 1,
    containers: [{ name: "main", image: "counter", ports: [{ containerPort: 8000 }] }],
  },
};
const settled = ({ status }: Sandbox): boolean => status?.phase === "Running" || status?.phase === "Failed";

function memoryLoaded({ status }: Sandbox): string | undefined {
  return status?.conditions?.find(({ type }) => type === "MemoryLoaded")?.reason;
}

async function create(kind: string, name: string, rest: { spec: object; annotations?: Record<string, string> }) {
  const { annotations, ...body } = rest;
  await cluster.create({
    apiVersion,
    kind,
    metadata: { name, namespace: "t", ...(annotations && { annotations }) },
    ...body,
  });
}

it("runs a sandbox, captures it with its memory, and restores it in a clone with its own identity", async () => {
  await create("Sandbox", "a", { spec: { template } });
  const source = await cluster.sandbox("t/a", settled);
  expect(source.status).toMatchObject({
    phase: "Running",
    conditions: [{ type: "Ready", status: "True", reason: "PodReady" }],
    ramet: { generation: 1 },
  });
  expect(source.status).not.toHaveProperty("message");
  expect([await count(cluster, "a"), await count(cluster, "a")]).toEqual([1, 2]);

  await create("Checkpoint", "a-1", { spec: { podName: "a" } });
  const checkpoint = await cluster.checkpoint("t/a-1", ({ status }) => status?.phase === "Succeeded");
  const id = checkpoint.status?.checkpointId ?? "";
  expect(checkpoint.status?.ramet).toMatchObject({ backend: "cell", contents: ["memory", "filesystem"] });
  expect(checkpoint.metadata.labels).toMatchObject({ "agents.kruise.io/sandbox-name": "a" });

  // The template comes from the checkpoint.
  await create("Sandbox", "b", { spec: {}, annotations: { "ramet.dev/restore-from": id } });
  const clone = await cluster.sandbox("t/b", settled);
  expect(clone.status).toMatchObject({ phase: "Running", ramet: { restoredFrom: id } });
  expect(memoryLoaded(clone)).toBe("Loaded");
  expect(await count(cluster, "b")).toBe(3);
  expect(await count(cluster, "a")).toBe(3);

  const credentials = await clusterCredentials(cluster.client);
  expect(credentials.guestToken(source.metadata.uid)).not.toBe(credentials.guestToken(clone.metadata.uid));
  const cells = new CellClient(credentials.key);
  const cell = { ip: clone.status?.sandboxIp ?? "", sandboxUid: clone.metadata.uid };
  const cellKey = clone.status?.ramet?.cellKey;
  expect(cellKey).toMatch(/^[\w-]{43}$/);
  expect(await cells.state({ ...cell, cellKey })).toMatchObject({ phase: "running", ready: true });
  const ofAnother = cells.state({ ...cell, cellKey: source.status?.ramet?.cellKey });
  await expect(ofAnother).rejects.toMatchObject({ code: "CellNotProven" });
  cells.close();
});

it("reports when a clone with much memory has loaded all of it, also if the controllers restart meanwhile", async () => {
  const script = `import os; held = os.urandom(96 * 2**20)\n${counterScript}`;
  const containers = [{ ...template.spec.containers[0], command: ["python3", "-c", script] }];
  await create("Sandbox", "big", { spec: { template: { spec: { ...template.spec, containers } } } });
  await cluster.sandbox("t/big", settled);
  expect(await count(cluster, "big")).toBe(1);
  await create("Checkpoint", "big-1", { spec: { sandboxName: "big" } });
  const { status } = await cluster.checkpoint("t/big-1", ({ status: now }) => now?.phase === "Succeeded");
  expect(status?.ramet?.sizeBytes).toBeGreaterThan(96 * 2 ** 20);

  await create("Sandbox", "big-b", { spec: {}, annotations: { "ramet.dev/restore-from": status?.checkpointId ?? "" } });
  const clone = await cluster.sandbox("t/big-b", settled);
  expect(["Loading", "Loaded"]).toContain(memoryLoaded(clone));
  await cluster.restartControllers();
  await cluster.sandbox("t/big-b", (sandbox) => memoryLoaded(sandbox) === "Loaded");
  expect(await count(cluster, "big-b")).toBe(2);
});

it("rejects a clone whose template differs before it creates a Pod, and names the field", async () => {
  const checkpoint = await cluster.checkpoint("t/a-1", ({ status }) => status?.phase === "Succeeded");
  const other = structuredClone(template);
  other.spec.containers[0]!.image = "another";
  await create("Sandbox", "mismatch", {
    spec: { template: other },
    annotations: { "ramet.dev/restore-from": checkpoint.status?.checkpointId ?? "" },
  });
  const { status } = await cluster.sandbox("t/mismatch", settled);
  expect(status?.phase).toBe("Failed");
  expect(status?.message).toContain('containers[0].image is "python" in the checkpoint and "another" here');
  expect(status?.message).toContain("TemplateMismatch");
  expect(cluster.seen.pods.store.get("t/mismatch")).toBeUndefined();
});

it("keeps the memory over a pause, and removes the checkpoint of the pause after the resume", async () => {
  const before = await count(cluster, "a");
  const { resource } = cluster.seen.sandboxes;
  await resource.mergePatch({ namespace: "t", name: "a" }, { spec: { paused: true } });
  const paused = await cluster.sandbox(
    "t/a",
    ({ status }) =>
      status?.conditions?.some(({ type, status: held }) => type === "SandboxPaused" && held === "True") ?? false,
  );
  expect(paused.status?.phase).toBe("Paused");
  expect(paused.status?.conditions).toContainEqual(expect.objectContaining({ reason: "SnapshotPauseSucceed" }));
  await cluster.untilDeleted("pods", "t/a");

  // The controllers may restart while the sandbox is paused.
  await cluster.restartControllers();
  await resource.mergePatch({ namespace: "t", name: "a" }, { spec: { paused: false } });
  const resumed = await cluster.sandbox("t/a", settled);
  expect(resumed.status?.conditions).toContainEqual(
    expect.objectContaining({ type: "SandboxResumed", status: "True", reason: "ResumePod" }),
  );
  expect(await count(cluster, "a")).toBe(before + 1);
  const ofPause = cluster.seen.checkpoints.store.list().find(({ metadata }) => metadata.name.startsWith("a-pause-"));
  if (ofPause !== undefined) await cluster.untilDeleted("checkpoints", `t/${ofPause.metadata.name}`);
});

it("stops the sandbox after its checkpoint with keepRunning: false", async () => {
  await create("Sandbox", "ending", { spec: { template } });
  await cluster.sandbox("t/ending", settled);
  await create("Checkpoint", "last", { spec: { sandboxName: "ending", keepRunning: false } });
  await cluster.checkpoint("t/last", ({ status }) => status?.phase === "Succeeded");
  const { status } = await cluster.sandbox("t/ending", ({ status: now }) => now?.phase === "Succeeded");
  expect(status?.conditions).toContainEqual(expect.objectContaining({ type: "Ready", status: "False" }));
  await cluster.pod("t/ending", (pod) => pod.status?.phase === "Succeeded");
});

it("boots a sandbox from a checkpoint that has only files", async () => {
  await create("Checkpoint", "files", { spec: { sandboxName: "b", persistentContents: ["filesystem"] } });
  const { status } = await cluster.checkpoint("t/files", ({ status: now }) => now?.phase === "Succeeded");
  await create("Sandbox", "fresh", { spec: {}, annotations: { "ramet.dev/restore-from": status?.checkpointId ?? "" } });
  await cluster.sandbox("t/fresh", settled);
  expect(await count(cluster, "fresh")).toBe(1);
});

it("removes a deleted checkpoint from the store, and keeps its clone running", async () => {
  await cluster.seen.checkpoints.resource.delete({ namespace: "t", name: "a-1" });
  await cluster.untilDeleted("checkpoints", "t/a-1");
  const remaining = await readdir(join(cluster.storePath, "t", "checkpoints"));
  expect(remaining.filter((name) => name.startsWith("a-1"))).toEqual([]);
  expect(await cluster.seen.templates.resource.find({ namespace: "t", name: "a-1" })).toBeUndefined();
  expect(await count(cluster, "b")).toBeGreaterThan(3);
});

it("deletes the Pod of a deleted sandbox", async () => {
  await cluster.seen.sandboxes.resource.delete({ namespace: "t", name: "b" });
  await cluster.untilDeleted("sandboxes", "t/b");
  expect(await cluster.seen.pods.resource.find({ namespace: "t", name: "b" })).toBeUndefined();
});

it("clones a sandbox that has its command from the image, with the same template and with the checkpoint's", async () => {
  await create("Sandbox", "plain", { spec: { template: imageTemplate } });
  expect(await count(cluster, "plain")).toBe(1);
  await create("Checkpoint", "plain-1", { spec: { sandboxName: "plain" } });
  const { status } = await cluster.checkpoint("t/plain-1", ({ status: { phase } = {} }) => phase === "Succeeded");
  expect(status?.ramet?.template).toMatchObject({ image: "counter", command: [], args: [] });
  const annotations = { "ramet.dev/restore-from": status?.checkpointId ?? "" };
  await create("Sandbox", "plain-same", { spec: { template: imageTemplate }, annotations });
  await create("Sandbox", "plain-kept", { spec: {}, annotations });
  expect(await count(cluster, "plain-same")).toBe(2);
  expect(await count(cluster, "plain-kept")).toBe(2);
});
