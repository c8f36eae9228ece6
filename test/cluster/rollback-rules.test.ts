import { afterAll, beforeAll, expect, test } from "vitest";
import { annotations } from "../../src/api/names/labels.ts";
import { RametError } from "../../src/base/errors.ts";
import { rollbackRequest } from "../../src/api/names/rollback-request.ts";
import type { Sandbox, SandboxStatus } from "../../src/api/kinds/sandbox.ts";
import { memoryIo } from "../setup/memory-io.ts";
import { runProgram } from "../../src/cli/program.ts";
import { findCondition } from "../../src/kube/conditions.ts";
import { openCluster, type Cluster } from "./controllers-cluster.ts";
import { StandInNode } from "./controllers-stand-in-node.ts";

/**
 * The rules and faults of a rollback on a real API server, with stand-in cells: they prove nothing of what is in memory
 * afterwards, which `rollback.test.ts` does.
 */
const node = new StandInNode();
let cluster: Cluster;

beforeAll(async () => {
  cluster = await openCluster({ startNode: node.start });
  await cluster.namespace("t");
});
afterAll(() => cluster.close());

const apiVersion = "agents.kruise.io/v1alpha1";
const template = (image = "python") => ({ spec: { containers: [{ name: "main", image }] } });

async function create(kind: string, name: string, spec: object): Promise<void> {
  await cluster.create({ apiVersion, kind, metadata: { name, namespace: "t" }, spec });
}
const sandbox = (name: string, holds: (status: SandboxStatus) => boolean): Promise<Sandbox> =>
  cluster.sandbox(`t/${name}`, ({ status }) => status !== undefined && holds(status));
async function running(name: string, image?: string): Promise<Sandbox> {
  await create("Sandbox", name, { template: template(image) });
  return sandbox(name, ({ phase }) => phase === "Running");
}
async function taken(name: string, sandboxName: string): Promise<string> {
  await create("Checkpoint", name, { sandboxName });
  const { status } = await cluster.checkpoint(`t/${name}`, ({ status: now }) => now?.phase === "Succeeded");
  return status?.checkpointId ?? "";
}
async function rollBack(name: string, to: string, request = "1"): Promise<void> {
  const wish = { [annotations.rollbackTo]: to, [annotations.rollbackRequest]: request };
  await cluster.seen.sandboxes.resource.mergePatch({ namespace: "t", name }, { metadata: { annotations: wish } });
}
const outcome = ({ conditions }: SandboxStatus) => findCondition(conditions, "RolledBack");
const succeeded = (status: SandboxStatus): boolean => status.phase === "Running" && outcome(status)?.status === "True";
const refusedWith =
  (code: string) =>
  (status: SandboxStatus): boolean =>
    outcome(status)?.reason === code;
const patch = (name: string, body: object) =>
  cluster.seen.sandboxes.resource.mergePatch({ namespace: "t", name }, body);

test("is done in the Pod that runs, whose address stays; and again when asked again", async () => {
  const before = await running("a");
  const id = await taken("a-1", "a");
  await rollBack("a", id);
  const after = await sandbox("a", succeeded);
  const { podInfo, sandboxIp } = before.status ?? {};
  expect(after.status).toMatchObject({ phase: "Running", podInfo, sandboxIp, ramet: { restoredFrom: id } });
  expect(after.status?.conditions?.find(({ type }) => type === "SandboxResumed")).toBeUndefined();
  const swaps = () => node.cells.get("t/a")?.calls.filter((call) => call === "swap").length;
  expect(swaps()).toBe(1);

  // The same wish is answered, also for a controller that has just begun.
  await cluster.restartControllers();
  await patch("a", { metadata: { labels: { touched: "yes" } } });
  await rollBack("a", id, "2");
  const request = after.status?.ramet?.rollback?.request;
  await sandbox("a", (status) => succeeded(status) && status.ramet?.rollback?.request !== request);
  expect(swaps()).toBe(2);
});

test("a refused one leaves the sandbox running as it was, and says why", async () => {
  const { status } = await running("b");
  await running("other", "another");
  const otherId = await taken("other-1", "other");
  for (const [to, code, message] of [
    ["nothing-there", "NotFound", "No checkpoint in the namespace t has the id nothing-there"],
    ["python@7", "NotFound", "The named snapshot python does not exist"],
    [otherId, "TemplateMismatch", 'containers[0].image is "another" in the checkpoint and "python" here'],
  ] as const) {
    await rollBack("b", to, code + to);
    const told = await sandbox("b", (now) => outcome(now)?.message.includes(message) === true);
    expect(told.status && outcome(told.status)).toMatchObject({ status: "False", reason: code });
    expect(told.status).toMatchObject({ phase: "Running", sandboxIp: status?.sandboxIp });
    expect(told.status?.podInfo?.podUID).toBe(status?.podInfo?.podUID);
    expect(findCondition(told.status?.conditions, "Ready")?.status).toBe("True");
  }
  expect(cluster.seen.pods.store.get("t/b")?.metadata.deletionTimestamp).toBeUndefined();
  const cell = node.cells.get("t/b")!;
  expect(cell.calls).not.toContain("swap");
  cell.behaviour.swapError = new RametError("NeedNotMet", "it needs another gVisor");
  await rollBack("b", await taken("b-1", "b"));
  const needs = await sandbox("b", refusedWith("NeedNotMet"));
  expect(needs.status).toMatchObject({ phase: "Running", podInfo: { podUID: status?.podInfo?.podUID } });
});

test("hands over the environment that is asked for with it in the same go", async () => {
  await running("h");
  const id = await taken("h-1", "h");
  const wish = { [annotations.rollbackTo]: id, [annotations.initRuntimeRequest]: '{"envVars":{"TASK":"7"}}' };
  await patch("h", { metadata: { annotations: wish } });
  const { status } = await sandbox("h", succeeded);
  expect(findCondition(status?.conditions, "RuntimeInitialized")?.status).toBe("True");
  const cell = node.cells.get("t/h");
  expect(cell?.calls.filter((call) => call === "swap" || call === "identity")).toEqual(["swap"]);
  expect(cell?.identity?.environment).toMatchObject({ TASK: "7" });
});

test("goes on where a controller that died has stopped, before and after the old Pod has gone", async () => {
  const before = await running("c");
  const id = await taken("c-1", "c");
  await cluster.stopControllers();
  await rollBack("c", id);
  // What a controller has written that died right after it: the rollback has begun, the Pod is still there.
  const wish = rollbackRequest(await cluster.seen.sandboxes.resource.get({ namespace: "t", name: "c" }));
  const replacedPodUid = before.status?.podInfo?.podUID;
  const rollback = { request: wish?.digest, checkpointId: id, replacedPodUid };
  await cluster.seen.sandboxes.resource.mergePatch(
    { namespace: "t", name: "c" },
    { status: { phase: "Resuming", ramet: { rollback } } },
    { subresource: "status" },
  );
  // The next one deletes the Pod, and dies while the new one does not come up.
  node.ignored.add("t/c");
  await cluster.startControllers();
  const held = await cluster.pod("t/c", ({ metadata }) => metadata.uid !== replacedPodUid);
  await cluster.restartControllers();
  expect((await cluster.seen.pods.resource.get({ namespace: "t", name: "c" })).metadata.uid).toBe(held.metadata.uid);
  node.ignored.delete("t/c");
  await cluster.seen.pods.resource.mergePatch(held.metadata, { metadata: { labels: { seen: "now" } } });
  const { status } = await sandbox("c", succeeded);
  expect(status).toMatchObject({ podInfo: { podUID: held.metadata.uid }, ramet: { restoredFrom: id } });
});

test("of a sandbox that has ended brings it back, and one that fails is told of and may be tried again", async () => {
  await running("d");
  const id = await taken("d-1", "d");
  const pod = await cluster.pod("t/d", () => true);
  await node.end(cluster.seen.pods, pod, { phase: "Failed", message: "it was killed" });
  await sandbox("d", ({ phase }) => phase === "Failed");

  node.behaviours.set("t/d", { startError: new RametError("EngineFailed", "restore: it was refused") });
  await rollBack("d", id, "1");
  const failed = await sandbox("d", refusedWith("EngineFailed"));
  expect(failed.status).toMatchObject({ phase: "Failed" });
  expect(failed.status?.ramet?.rollback).not.toHaveProperty("checkpointId");

  node.behaviours.delete("t/d");
  await rollBack("d", id, "2");
  await sandbox("d", succeeded);
});

test("waits for a checkpoint that is being taken of it, and refuses what is paused", async () => {
  await running("e");
  const id = await taken("e-1", "e");
  const cut = Promise.withResolvers<undefined>();
  node.cells.get("t/e")!.behaviour.cutGate = cut.promise;
  await create("Checkpoint", "e-2", { sandboxName: "e" });
  await cluster.checkpoint("t/e-2", ({ status }) => status?.phase === "Creating");
  await rollBack("e", id);
  const waiting = await sandbox("e", refusedWith("Pending"));
  expect(waiting.status?.phase).toBe("Running");
  cut.resolve(undefined);
  await sandbox("e", succeeded);
  await cluster.checkpoint("t/e-2", ({ status }) => status?.phase === "Succeeded");

  await patch("e", { spec: { paused: true } });
  await sandbox("e", ({ phase }) => phase === "Paused");
  await rollBack("e", id, "2");
  const { status } = await sandbox("e", refusedWith("SandboxNotReady"));
  expect(status?.phase).toBe("Paused");
  await patch("e", { spec: { paused: false } });
  await sandbox("e", ({ phase }) => phase === "Running");
});

test("may be followed by the end of its checkpoint, and by that of the sandbox in the middle of one", async () => {
  await running("f");
  const id = await taken("f-1", "f");
  await rollBack("f", id);
  await sandbox("f", succeeded);
  await cluster.seen.checkpoints.resource.delete({ namespace: "t", name: "f-1" });
  await cluster.gone("checkpoints", "t/f-1");
  await rollBack("f", id, "2");
  const { status } = await sandbox("f", refusedWith("NotFound"));
  expect(status?.phase).toBe("Running");

  const second = await taken("f-2", "f");
  const pod = await cluster.pod("t/f", () => true);
  await node.end(cluster.seen.pods, pod, { phase: "Failed", message: "it was killed" });
  await sandbox("f", ({ phase }) => phase === "Failed");
  node.behaviours.set("t/f", { startError: new RametError("Unavailable", "not yet", { retryable: true }) });
  await rollBack("f", second, "3");
  await sandbox("f", ({ phase }) => phase === "Resuming");
  await cluster.seen.sandboxes.resource.delete({ namespace: "t", name: "f" });
  await cluster.gone("sandboxes", "t/f");
  expect(await cluster.seen.pods.resource.find({ namespace: "t", name: "f" })).toBeUndefined();
});

test("a fork tells of each clone, and keeps its checkpoint while one may still need it", async () => {
  await running("g");
  node.behaviours.set("t/fork-1", { startError: new RametError("EngineFailed", "restore: it was refused") });
  node.ignored.add("t/fork-3");
  const io = memoryIo({ environment: { HOME: "/nowhere", KUBECONFIG: cluster.kubeconfigPath } });
  const options = ["--count", "3", "--name-prefix", "fork", "--timeout", "15s", "-n", "t", "-o", "json"];
  expect(await runProgram(io, ["fork", "g", ...options])).toBe(4);
  const { items } = JSON.parse(io.written("stdout")) as { items: Sandbox[] };
  expect(items.map(({ metadata }) => metadata.name)).toEqual(["fork-2"]);
  const told = io.written("stderr");
  expect(told).toContain("The sandbox fork-1 failed: restore: it was refused");
  expect(told).toContain("Waiting for the sandbox fork-3 took too long");
  const name = /The checkpoint (\S+) stays for a day/.exec(told)?.[1] ?? "";
  const kept = await cluster.seen.checkpoints.resource.get({ namespace: "t", name });
  expect(kept).toMatchObject({ spec: { ttlAfterFinished: "1d" }, status: { phase: "Succeeded" } });
});
