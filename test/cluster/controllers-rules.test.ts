import { readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Checkpoint } from "../../src/api/kinds/checkpoint.ts";
import { RametError } from "../../src/base/errors.ts";
import type { Sandbox } from "../../src/api/kinds/sandbox.ts";
import { coreResources } from "../../src/kube/resource-ref.ts";
import { openCluster, type Cluster } from "./controllers-cluster.ts";
import { StandInNode } from "./controllers-stand-in-node.ts";
import { followStatuses, withoutNotices, writeOf } from "./counted-writes.ts";

/** Tests the controllers' rules and faults on a real API server, with stand-in cells that a test can block and fail. */
const node = new StandInNode();
let cluster: Cluster;
let namespace = "";
let number = 0;

beforeAll(async () => {
  cluster = await openCluster({ startNode: node.start });
});
afterAll(() => cluster.close());

const apiVersion = "agents.kruise.io/v1alpha1";
const template = { spec: { containers: [{ name: "main", image: "python", env: [{ name: "A", value: "1" }] }] } };
const restoreFrom = "agents.kruise.io/restore-from";

async function inNewNamespace(): Promise<void> {
  namespace = `n${++number}`;
  await cluster.namespace(namespace);
}
async function create(kind: string, name: string, spec: object, annotations?: Record<string, string>): Promise<void> {
  await cluster.create({ apiVersion, kind, metadata: { name, namespace, ...(annotations && { annotations }) }, spec });
}
const at = (name: string) => `${namespace}/${name}`;
const sandbox = (name: string, holds: (status: NonNullable<Sandbox["status"]>) => boolean) =>
  cluster.sandbox(at(name), ({ status }) => status !== undefined && holds(status));
const checkpoint = (name: string, holds: (status: NonNullable<Checkpoint["status"]>) => boolean) =>
  cluster.checkpoint(at(name), ({ status }) => status !== undefined && holds(status));
const inPhase =
  (...phases: string[]) =>
  ({ phase }: { phase?: string | undefined }): boolean =>
    phases.includes(phase ?? "");
const reasonOf = ({ conditions }: NonNullable<Sandbox["status"]>, type: string) =>
  conditions?.find((one) => one.type === type)?.reason;
const patch = (name: string, spec: object) => cluster.seen.sandboxes.resource.mergePatch({ namespace, name }, { spec });

async function running(name: string): Promise<Sandbox> {
  await create("Sandbox", name, { template });
  return sandbox(name, inPhase("Running", "Failed"));
}
async function taken(name: string, source: string): Promise<string> {
  await create("Checkpoint", name, { podName: source });
  const { status } = await checkpoint(name, inPhase("Succeeded", "Failed"));
  expect(status?.phase).toBe("Succeeded");
  return status?.checkpointId ?? "";
}
const gate = () => Promise.withResolvers<undefined>();

it("writes a sandbox twice and creates one Pod for it, and writes a checkpoint three times and creates its template", async () => {
  await inNewNamespace();
  // The first sandbox starts slowly.
  await running("first");
  const written: string[] = [];
  /** The writes so far. A watch can show a write's effect before its response arrives. */
  const writes = () => {
    const records = cluster
      .requests()
      .filter(({ verb, name }) => ["create", "patch", "update"].includes(verb) && name !== "first")
      .filter(({ resource }) => ["pods", "sandboxes", "checkpoints", "sandboxtemplates"].includes(resource.plural));
    written.push(...records.map(writeOf));
    return written.toSorted();
  };
  writes();
  written.length = 0;
  const statuses = followStatuses(cluster.seen.sandboxes, "a", ({ status }) =>
    status?.phase === "Pending" ? (status.message ?? "") : undefined,
  );
  await running("a");
  await expect
    .poll(() => withoutNotices(writes(), statuses, "patch sandboxes status"))
    .toEqual(["create pods", "patch sandboxes", "patch sandboxes status"]);
  statuses.stop();
  // The notices have different reasons, so none is written twice.
  expect(new Set(statuses.notices()).size).toBe(statuses.notices().length);
  expect(statuses.notices().length).toBeLessThanOrEqual(2);
  written.length = 0;
  await taken("c", "a");
  await expect
    .poll(writes)
    .toEqual(["create sandboxtemplates", "patch checkpoints", "patch checkpoints status", "patch checkpoints status"]);
});

it("gives each sandbox its own identity, and the environment of its template", async () => {
  await inNewNamespace();
  await running("a");
  const id = await taken("c", "a");
  await create("Sandbox", "b", {}, { [restoreFrom]: id });
  await sandbox("b", inPhase("Running"));
  const [a, b] = [node.cells.get(at("a"))!, node.cells.get(at("b"))!];
  expect(a.identity).toMatchObject({ sandboxId: `${namespace}--a`, hostname: "a", environment: { A: "1" } });
  expect(b.identity).toMatchObject({ sandboxId: `${namespace}--b`, hostname: "b" });
  expect(a.identity?.accessToken).not.toBe(b.identity?.accessToken);
  expect(b.restored).toBe(id);
});

it("names a template that does not exist yet, and starts the sandbox once it does", async () => {
  await inNewNamespace();
  await create("Sandbox", "a", { templateRef: { name: "later" } });
  const { status } = await sandbox("a", (now) => reasonOf(now, "Ready") === "PodCreateFailed");
  expect(status).toMatchObject({ phase: "Pending" });
  expect(status?.message).toMatch(/SandboxTemplate later does not exist in the namespace n\d+\. Create it/);
  await create("SandboxTemplate", "later", { template });
  await sandbox("a", inPhase("Running"));
});

it("rejects a template without an image with the field's name", async () => {
  await inNewNamespace();
  await create("Sandbox", "a", { template: { spec: { containers: [{ name: "main" }] } } });
  const { status } = await sandbox("a", (now) => reasonOf(now, "Ready") === "PodCreateFailed");
  expect(status?.message).toContain("spec.template.spec.containers[0].image");
});

it("fails a clone if no checkpoint of its namespace has the id, even if one of another namespace does", async () => {
  await inNewNamespace();
  await running("a");
  const id = await taken("c", "a");
  await inNewNamespace();
  await create("Sandbox", "b", { template }, { [restoreFrom]: id });
  const { status } = await sandbox("b", inPhase("Failed"));
  expect(status?.message).toContain(`No checkpoint in the namespace ${namespace} has the id ${id}`);
  expect(status?.message).toContain(`ramet checkpoint ls -n ${namespace}`);
  expect(reasonOf(status!, "Ready")).toBe("NotFound");
});

it("fails a second checkpoint of one Pod with the name of the first, which succeeds", async () => {
  await inNewNamespace();
  await running("a");
  const hold = gate();
  node.cells.get(at("a"))!.behaviour.captureGate = hold.promise;
  await create("Checkpoint", "first", { podName: "a" });
  await checkpoint("first", inPhase("Creating"));
  await create("Checkpoint", "second", { sandboxName: "a" });
  const { status } = await checkpoint("second", inPhase("Failed", "Succeeded"));
  expect(status?.phase).toBe("Failed");
  expect(status?.message).toContain("first of the sandbox a has not finished");
  hold.resolve(undefined);
  await checkpoint("first", inPhase("Succeeded"));
  await taken("third", "a");
});

it("fails a checkpoint of a sandbox that is not Ready", async () => {
  await inNewNamespace();
  node.ignored.add(at("a"));
  await create("Sandbox", "a", { template });
  await sandbox("a", inPhase("Pending"));
  await create("Checkpoint", "c", { podName: "a" });
  const { status } = await checkpoint("c", inPhase("Failed"));
  expect(status?.message).toContain("the Pod a is Pending, not Running");
  await create("Checkpoint", "none", { podName: "nobody" });
  const none = await checkpoint("none", inPhase("Failed"));
  expect(none.status?.message).toContain("the namespace has no sandbox nobody");
});

it("reports why a capture failed, and keeps the source running", async () => {
  await inNewNamespace();
  await running("a");
  node.cells.get(at("a"))!.behaviour.captureError = new RametError("StoreFull", "publishing failed: no room", {
    hint: "Make room",
  });
  await create("Checkpoint", "c", { podName: "a" });
  const { status } = await checkpoint("c", inPhase("Failed"));
  expect(status?.message).toBe("publishing failed: no room. Make room [StoreFull]");
  expect(cluster.seen.sandboxes.store.get(at("a"))?.status?.phase).toBe("Running");
  await taken("again", "a");
});

it("finishes a checkpoint that is deleted during its capture, and then deletes it with its data", async () => {
  await inNewNamespace();
  await running("a");
  const hold = gate();
  node.cells.get(at("a"))!.behaviour.captureGate = hold.promise;
  await create("Checkpoint", "c", { podName: "a" });
  await expect.poll(() => node.cells.get(at("a"))!.state.checkpointing).toBeDefined();
  await cluster.seen.checkpoints.resource.delete({ namespace, name: "c" });
  await cluster.checkpoint(at("c"), ({ metadata }) => metadata.deletionTimestamp !== undefined);
  expect(node.cells.get(at("a"))!.state.checkpointing).toBeDefined();
  hold.resolve(undefined);
  await cluster.untilDeleted("checkpoints", at("c"));
  expect(await readdir(join(cluster.storePath, namespace, "checkpoints"))).toEqual([]);
});

it("resumes a checkpoint when the controllers restart during its capture", async () => {
  await inNewNamespace();
  await running("a");
  const hold = gate();
  const cell = node.cells.get(at("a"))!;
  cell.behaviour.captureGate = hold.promise;
  await create("Checkpoint", "joined", { podName: "a" });
  await checkpoint("joined", inPhase("Creating"));
  await cluster.restartControllers();
  hold.resolve(undefined);
  await checkpoint("joined", inPhase("Succeeded"));

  const second = gate();
  cell.behaviour.captureGate = second.promise;
  await create("Checkpoint", "found", { podName: "a", keepRunning: false });
  await checkpoint("found", inPhase("Creating"));
  await cluster.stopControllers();
  second.resolve(undefined);
  while (cell.state.phase !== "paused") await new Promise((resolve) => setTimeout(resolve, 5));
  await cluster.startControllers();
  await checkpoint("found", inPhase("Succeeded"));
  await sandbox("a", inPhase("Succeeded"));
  expect(cell.calls.filter((call) => call === "stop")).toHaveLength(1);
});

it("fails an unpublished checkpoint whose Pod was deleted while no controller ran", async () => {
  await inNewNamespace();
  await running("a");
  node.cells.get(at("a"))!.behaviour.captureGate = gate().promise;
  await create("Checkpoint", "c", { podName: "a" });
  await checkpoint("c", inPhase("Creating"));
  await cluster.stopControllers();
  await cluster.seen.pods.resource.delete({ namespace, name: "a" }, { gracePeriodSeconds: 0 });
  await cluster.untilDeleted("pods", at("a"));
  await cluster.startControllers();
  const { status } = await checkpoint("c", inPhase("Failed"));
  expect(status?.message).toContain("the Pod a no longer exists");
  expect(status?.message).toContain("SandboxLost");
  const lost = await sandbox("a", inPhase("Failed"));
  expect(lost.status?.message).toContain("Pod Not Found");
});

it("fails a checkpoint with the Pod's message as soon as its Pod has ended, although the cell never responds", async () => {
  await inNewNamespace();
  await running("a");
  node.cells.get(at("a"))!.behaviour.captureGate = gate().promise;
  await create("Checkpoint", "c", { podName: "a" });
  await checkpoint("c", inPhase("Creating"));
  const pod = await cluster.pod(at("a"), () => true);
  // The cell keeps the connection open: only the Pod's status shows the end.
  await cluster.seen.pods.resource.mergePatch(
    pod.metadata,
    { status: { phase: "Failed", message: "the cell was killed by signal 9" } },
    { subresource: "status" },
  );
  const { status } = await checkpoint("c", inPhase("Failed", "Succeeded"));
  expect(status?.message).toMatch(/the Pod a has ended: the cell was killed by signal 9.*\[SandboxLost\]/);
});

it("fails a checkpoint as soon as its Pod is deleted, and removes it if it was deleted meanwhile", async () => {
  await inNewNamespace();
  for (const [name, isDeleted] of [
    ["kept", false],
    ["deleted", true],
  ] as const) {
    await running(name);
    node.cells.get(at(name))!.behaviour.captureGate = gate().promise;
    await create("Checkpoint", `of-${name}`, { podName: name });
    await checkpoint(`of-${name}`, inPhase("Creating"));
    if (isDeleted) await cluster.seen.checkpoints.resource.delete({ namespace, name: `of-${name}` });
    await cluster.seen.pods.resource.delete({ namespace, name }, { gracePeriodSeconds: 0 });
    if (isDeleted) await cluster.untilDeleted("checkpoints", at(`of-${name}`));
    else
      expect((await checkpoint(`of-${name}`, inPhase("Failed"))).status?.message).toContain(
        "the Pod kept no longer exists",
      );
  }
});

it("succeeds if the checkpoint was published before its Pod ended", async () => {
  await inNewNamespace();
  await running("a");
  const cell = node.cells.get(at("a"))!;
  cell.behaviour.captureResponseGate = gate().promise;
  await create("Checkpoint", "c", { podName: "a" });
  const { status: creating } = await checkpoint("c", inPhase("Creating"));
  const data = join(cluster.storePath, namespace, "checkpoints", creating?.checkpointId ?? "");
  await expect.poll(() => readdir(data).catch(() => []), { interval: 5 }).not.toEqual([]);
  await cluster.seen.pods.resource.delete({ namespace, name: "a" }, { gracePeriodSeconds: 0 });
  const { status } = await checkpoint("c", inPhase("Succeeded", "Failed"));
  expect(status).toMatchObject({ phase: "Succeeded", ramet: { contents: ["memory", "filesystem"] } });
  expect(status).not.toHaveProperty("message");
});

it("deletes a checkpoint after its time to live", async () => {
  await inNewNamespace();
  await running("a");
  await create("Checkpoint", "c", { podName: "a", ttlAfterFinished: "1s" });
  await checkpoint("c", inPhase("Succeeded"));
  await cluster.untilDeleted("checkpoints", at("c"));
});

it("lets a clone wait for an unfinished checkpoint, and fails the clone if the checkpoint fails", async () => {
  await inNewNamespace();
  await running("a");
  const hold = gate();
  const { behaviour } = node.cells.get(at("a"))!;
  behaviour.captureGate = hold.promise;
  await create("Checkpoint", "c", { podName: "a" });
  const { status } = await checkpoint("c", inPhase("Creating"));
  const id = status?.checkpointId ?? "";
  await create("Sandbox", "b", { template }, { [restoreFrom]: id });
  await sandbox("b", ({ message }) => message === "Waiting for the checkpoint c to succeed");
  behaviour.captureError = new RametError("EngineFailed", "gVisor could not");
  hold.resolve(undefined);
  const { status: refused } = await sandbox("b", inPhase("Failed", "Running"));
  expect(refused?.message).toContain(`The checkpoint ${id} (c) cannot be cloned: it has failed`);
});

it("reports a failed restore in the clone's message", async () => {
  await inNewNamespace();
  await running("a");
  const id = await taken("c", "a");
  node.behaviours.set(at("b"), { startError: new RametError("EngineFailed", "restore: gVisor refused it") });
  await create("Sandbox", "b", {}, { [restoreFrom]: id });
  const { status } = await sandbox("b", inPhase("Failed"));
  expect(status?.message).toBe("restore: gVisor refused it [EngineFailed]");
});

it("fails a sandbox whose Pod ends, with the Pod's message", async () => {
  await inNewNamespace();
  await running("a");
  await node.end(cluster.seen.pods, await cluster.pod(at("a"), () => true), {
    phase: "Failed",
    message: "the sandbox ran out of memory",
  });
  const { status } = await sandbox("a", inPhase("Failed"));
  expect(status?.message).toBe("the sandbox ran out of memory");
});

it("pauses without a checkpoint with strategy Stop, and boots again at the resume", async () => {
  await inNewNamespace();
  await create("Sandbox", "a", { template, pauseStrategy: { type: "Stop" } });
  await sandbox("a", inPhase("Running"));
  await patch("a", { paused: true });
  const paused = await sandbox("a", (status) => reasonOf(status, "SandboxPaused") === "StopPauseSucceed");
  expect(paused.status?.phase).toBe("Paused");
  expect(cluster.seen.checkpoints.store.list().filter(({ metadata }) => metadata.namespace === namespace)).toEqual([]);
  await patch("a", { paused: false });
  const resumed = await sandbox("a", inPhase("Running"));
  expect(reasonOf(resumed.status!, "SandboxResumed")).toBe("ResumePod");
  expect(node.cells.get(at("a"))!.calls).toEqual(["boot"]);
});

it("keeps a sandbox running if the checkpoint of its pause fails, and can pause it later", async () => {
  await inNewNamespace();
  await running("a");
  node.cells.get(at("a"))!.behaviour.captureError = new RametError("StoreFull", "no room");
  await patch("a", { paused: true });
  const { status } = await sandbox("a", (now) => reasonOf(now, "SandboxPaused") === "CheckpointFailed");
  expect(status?.phase).toBe("Running");
  await patch("a", { paused: false });
  await sandbox("a", (now) => reasonOf(now, "SandboxPaused") === undefined);
  await patch("a", { paused: true });
  await sandbox("a", (now) => reasonOf(now, "SandboxPaused") === "SnapshotPauseSucceed");
});

it("resumes a sandbox whose pause is cancelled during its checkpoint", async () => {
  await inNewNamespace();
  await running("a");
  const hold = gate();
  node.cells.get(at("a"))!.behaviour.captureGate = hold.promise;
  await patch("a", { paused: true });
  await sandbox("a", (now) => reasonOf(now, "SandboxPaused") === "CheckpointCreating");
  await patch("a", { paused: false });
  hold.resolve(undefined);
  const { status } = await sandbox("a", (now) => reasonOf(now, "SandboxResumed") === "ResumePod");
  expect(status?.phase).toBe("Running");
  expect(node.cells.get(at("a"))!.calls).toEqual(["restore"]);
});

it("pauses a sandbox at its pauseTime, and deletes it at its shutdownTime", async () => {
  await inNewNamespace();
  const soon = () => new Date(Date.now() + 1_000).toISOString();
  await create("Sandbox", "p", { template, pauseTime: soon() });
  await create("Sandbox", "s", { template, shutdownTime: soon() });
  await sandbox("p", inPhase("Paused"));
  await cluster.untilDeleted("sandboxes", at("s"));
  await create("Sandbox", "past", { template, shutdownTime: "2020-01-01T00:00:00Z" });
  await cluster.untilDeleted("sandboxes", at("past"));
});

it("deletes a Pod whose Sandbox was deleted while no controller ran", async () => {
  await inNewNamespace();
  await running("a");
  await cluster.stopControllers();
  await cluster.seen.sandboxes.resource.mergePatch({ namespace, name: "a" }, { metadata: { finalizers: null } });
  await cluster.seen.sandboxes.resource.delete({ namespace, name: "a" });
  await cluster.startControllers();
  await cluster.untilDeleted("pods", at("a"));
});

it("does not touch another owner's Pod with the sandbox's name", async () => {
  await inNewNamespace();
  await cluster.client.resource(coreResources.pods).create({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "a", namespace },
    spec: { containers: [{ name: "other", image: "other" }] },
  });
  await create("Sandbox", "a", { template });
  const { status } = await sandbox("a", ({ message }) => (message ?? "").includes("belongs to something else"));
  expect(status?.phase).toBe("Pending");
  expect(await cluster.client.resource(coreResources.pods).find({ namespace, name: "a" })).toBeDefined();
});

it("exits when the store belongs to another cluster, and sweeps nothing in it", async () => {
  const marker = join(cluster.storePath, "store.json");
  const own = await readFile(marker, "utf8");
  await cluster.stopControllers();
  await rm(marker);
  await writeFile(marker, JSON.stringify({ v: 1, cluster: "11111111-2222-3333-4444-555555555555" }));
  try {
    await expect(cluster.startControllers()).rejects.toMatchObject({
      code: "StoreOfAnotherCluster",
      message: expect.stringContaining("11111111-2222-3333-4444-555555555555") as string,
      hint: expect.stringContaining(marker) as string,
    });
  } finally {
    await rm(marker);
    await writeFile(marker, own);
    await cluster.stopControllers().catch(() => undefined);
    await cluster.startControllers();
  }
});

it("records transitions as Events", async () => {
  await inNewNamespace();
  await running("a");
  await taken("c", "a");
  await cluster.restartControllers();
  const { items } = await cluster.client.resource(coreResources.events).list({ namespace });
  const reasons = items.map((event) => (event as unknown as { reason: string }).reason);
  expect(reasons).toEqual(expect.arrayContaining(["SandboxRunning", "CheckpointSucceeded"]));
});

it("applies the variables of an annotation to new and running sandboxes, and keeps them over a pause", async () => {
  await inNewNamespace();
  const request = "agents.kruise.io/init-runtime-request";
  const ask = (text: string | null) =>
    cluster.seen.sandboxes.resource.mergePatch(
      { namespace, name: "a" },
      { metadata: { annotations: { [request]: text } } },
    );
  const environment = () => node.cells.get(at("a"))?.identity?.environment;
  await create("Sandbox", "a", { template }, { [request]: '{"envVars":{"B":"2"}}' });
  const started = await sandbox("a", inPhase("Running"));
  expect(environment()).toEqual({ A: "1", B: "2" });
  expect(node.cells.get(at("a"))?.calls).toEqual(["boot"]);
  expect(reasonOf(started.status!, "RuntimeInitialized")).toBe("Succeeded");

  await ask('{"envVars":{"A":"own"}}');
  await sandbox("a", ({ ramet }) => ramet?.initRequest !== started.status?.ramet?.initRequest);
  expect(environment()).toEqual({ A: "own" });
  expect(node.cells.get(at("a"))?.calls).toEqual(["boot", "identity"]);

  // A controller that stopped before it recorded the handover repeats it: the cell accepts the same identity again.
  await cluster.stopControllers();
  await ask('{"envVars":{"A":"new"}}');
  await cluster.startControllers();
  await expect.poll(environment).toEqual({ A: "new" });

  await ask("{");
  const refused = await sandbox("a", (status) => reasonOf(status, "RuntimeInitialized") === "Failed");
  expect(refused.status?.conditions?.find(({ type }) => type === "RuntimeInitialized")?.message).toContain(
    "it is not JSON",
  );
  expect(refused.status?.phase).toBe("Running");

  await ask('{"envVars":{"A":"kept"}}');
  await sandbox("a", (status) => reasonOf(status, "RuntimeInitialized") === "Succeeded");
  await patch("a", { paused: true });
  await sandbox("a", inPhase("Paused"));
  await patch("a", { paused: false });
  await sandbox("a", inPhase("Running"));
  expect(environment()).toEqual({ A: "kept" });
  await ask(null);
  await expect.poll(environment).toEqual({ A: "1" });
});

it("creates volume claims before the Pod that mounts them, and never uses claims of another owner", async () => {
  await inNewNamespace();
  const claims = cluster.client.resource(coreResources.persistentVolumeClaims);
  const claimSpec = { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } };
  const volumeClaimTemplates = [{ metadata: { name: "data", labels: { tier: "hot" } }, spec: claimSpec }];
  await create("Sandbox", "a", { template, volumeClaimTemplates });
  const { metadata } = await sandbox("a", inPhase("Running"));
  const claim = await claims.get({ namespace, name: "data-a" });
  expect(claim).toMatchObject({
    metadata: { labels: { tier: "hot" }, ownerReferences: [{ kind: "Sandbox", name: "a", uid: metadata.uid }] },
    spec: claimSpec,
  });
  const pod = await cluster.pod(at("a"), () => true);
  expect(pod.spec.volumes).toContainEqual({ name: "data", persistentVolumeClaim: { claimName: "data-a" } });

  // A clone from a checkpoint's template has its own claims.
  await create("Sandbox", "b", {}, { [restoreFrom]: await taken("c", "a") });
  const clone = await sandbox("b", inPhase("Running"));
  expect(clone.spec.volumeClaimTemplates).toEqual(volumeClaimTemplates);
  await claims.get({ namespace, name: "data-b" });

  const foreign = { apiVersion: "v1", kind: "PersistentVolumeClaim", metadata: { name: "data-d", namespace } };
  await claims.create({ ...foreign, spec: claimSpec });
  await create("Sandbox", "d", { template, volumeClaimTemplates });
  const { status } = await sandbox("d", ({ message }) => message?.includes("data-d") === true);
  expect(status).toMatchObject({ phase: "Pending", conditions: [{ type: "Ready", reason: "PodCreateFailed" }] });
  expect(cluster.seen.pods.store.get(at("d"))).toBeUndefined();
  await claims.delete({ namespace, name: "data-d" });
  await create("Sandbox", "e", { template, volumeClaimTemplates: [{ spec: claimSpec }] });
  await sandbox(
    "e",
    ({ message }) => message?.startsWith("The Pod cannot be created: spec.volumeClaimTemplates[0].metadata") === true,
  );
});
