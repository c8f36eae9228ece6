import { afterAll, beforeAll, expect, it } from "vitest";
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
 * Tests the rules and faults of a rollback on a real API server with stand-in cells. `rollback.test.ts` tests the memory
 * after a rollback.
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
  const requested = { [annotations.rollbackTo]: to, [annotations.rollbackRequest]: request };
  await cluster.seen.sandboxes.resource.mergePatch({ namespace: "t", name }, { metadata: { annotations: requested } });
}
const outcome = ({ conditions }: SandboxStatus) => findCondition(conditions, "RolledBack");
const succeeded = (status: SandboxStatus): boolean => status.phase === "Running" && outcome(status)?.status === "True";
const rejectedWith =
  (code: string) =>
  (status: SandboxStatus): boolean =>
    outcome(status)?.reason === code;
const patch = (name: string, body: object) =>
  cluster.seen.sandboxes.resource.mergePatch({ namespace: "t", name }, body);

it("rolls back in the running Pod, which keeps its address, and repeats it for a new request", async () => {
  const before = await running("a");
  const id = await taken("a-1", "a");
  await rollBack("a", id);
  const after = await sandbox("a", succeeded);
  const { podInfo, sandboxIp } = before.status ?? {};
  expect(after.status).toMatchObject({ phase: "Running", podInfo, sandboxIp, ramet: { restoredFrom: id } });
  expect(after.status?.conditions?.find(({ type }) => type === "SandboxResumed")).toBeUndefined();
  const restoreCount = () => node.cells.get("t/a")?.calls.filter((call) => call === "swap").length;
  expect(restoreCount()).toBe(1);

  // The same request is not repeated, not even after a restart of the controllers.
  await cluster.restartControllers();
  await patch("a", { metadata: { labels: { touched: "yes" } } });
  await rollBack("a", id, "2");
  const request = after.status?.ramet?.rollback?.request;
  await sandbox("a", (status) => succeeded(status) && status.ramet?.rollback?.request !== request);
  expect(restoreCount()).toBe(2);
});

it("keeps the sandbox running if the rollback is rejected, and reports why", async () => {
  const { status } = await running("b");
  await running("other", "another");
  const otherId = await taken("other-1", "other");
  for (const [to, code, message] of [
    ["nothing-there", "NotFound", "No checkpoint in the namespace t has the id nothing-there"],
    ["python@7", "NotFound", "The named snapshot python does not exist"],
    [otherId, "TemplateMismatch", 'containers[0].image is "another" in the checkpoint and "python" here'],
  ] as const) {
    await rollBack("b", to, code + to);
    const rejected = await sandbox("b", (now) => outcome(now)?.message.includes(message) === true);
    expect(rejected.status && outcome(rejected.status)).toMatchObject({ status: "False", reason: code });
    expect(rejected.status).toMatchObject({ phase: "Running", sandboxIp: status?.sandboxIp });
    expect(rejected.status?.podInfo?.podUID).toBe(status?.podInfo?.podUID);
    expect(findCondition(rejected.status?.conditions, "Ready")?.status).toBe("True");
  }
  expect(cluster.seen.pods.store.get("t/b")?.metadata.deletionTimestamp).toBeUndefined();
  const cell = node.cells.get("t/b")!;
  expect(cell.calls).not.toContain("swap");
  cell.behaviour.restoreInPlaceError = new RametError("NeedNotMet", "it needs another gVisor");
  await rollBack("b", await taken("b-1", "b"));
  const needs = await sandbox("b", rejectedWith("NeedNotMet"));
  expect(needs.status).toMatchObject({ phase: "Running", podInfo: { podUID: status?.podInfo?.podUID } });
});

it("hands over a requested environment in the same restore", async () => {
  await running("h");
  const id = await taken("h-1", "h");
  const requested = { [annotations.rollbackTo]: id, [annotations.initRuntimeRequest]: '{"envVars":{"TASK":"7"}}' };
  await patch("h", { metadata: { annotations: requested } });
  const { status } = await sandbox("h", succeeded);
  expect(findCondition(status?.conditions, "RuntimeInitialized")?.status).toBe("True");
  const cell = node.cells.get("t/h");
  expect(cell?.calls.filter((call) => call === "swap" || call === "identity")).toEqual(["swap"]);
  expect(cell?.identity?.environment).toMatchObject({ TASK: "7" });
});

it("resumes the rollback of a controller that stopped before or after the deletion of the old Pod", async () => {
  const before = await running("c");
  const id = await taken("c-1", "c");
  await cluster.stopControllers();
  await rollBack("c", id);
  // The status that a controller wrote just before it stopped: the rollback has started and the Pod still exists.
  const request = rollbackRequest(await cluster.seen.sandboxes.resource.get({ namespace: "t", name: "c" }));
  const replacedPodUid = before.status?.podInfo?.podUID;
  const rollback = { request: request?.digest, checkpointId: id, replacedPodUid };
  await cluster.seen.sandboxes.resource.mergePatch(
    { namespace: "t", name: "c" },
    { status: { phase: "Resuming", ramet: { rollback } } },
    { subresource: "status" },
  );
  // The next controller deletes the Pod, and stops before the new Pod starts.
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

it("restores a sandbox that has ended, and reports a failed rollback, which can be repeated", async () => {
  await running("d");
  const id = await taken("d-1", "d");
  const pod = await cluster.pod("t/d", () => true);
  await node.end(cluster.seen.pods, pod, { phase: "Failed", message: "it was killed" });
  await sandbox("d", ({ phase }) => phase === "Failed");

  node.behaviours.set("t/d", { startError: new RametError("EngineFailed", "restore: it was refused") });
  await rollBack("d", id, "1");
  const failed = await sandbox("d", rejectedWith("EngineFailed"));
  expect(failed.status).toMatchObject({ phase: "Failed" });
  expect(failed.status?.ramet?.rollback).not.toHaveProperty("checkpointId");

  node.behaviours.delete("t/d");
  await rollBack("d", id, "2");
  await sandbox("d", succeeded);
});

it("waits for an unfinished checkpoint of the sandbox, and rolls back a paused sandbox, which stays paused", async () => {
  await running("e");
  const id = await taken("e-1", "e");
  const captureEnd = Promise.withResolvers<undefined>();
  node.cells.get("t/e")!.behaviour.captureGate = captureEnd.promise;
  await create("Checkpoint", "e-2", { sandboxName: "e" });
  await cluster.checkpoint("t/e-2", ({ status }) => status?.phase === "Creating");
  await rollBack("e", id);
  const waiting = await sandbox("e", rejectedWith("Pending"));
  expect(waiting.status?.phase).toBe("Running");
  captureEnd.resolve(undefined);
  await sandbox("e", succeeded);
  await cluster.checkpoint("t/e-2", ({ status }) => status?.phase === "Succeeded");

  await patch("e", { spec: { paused: true } });
  await sandbox("e", ({ phase }) => phase === "Paused");
  await rollBack("e", id, "2");
  const { status } = await sandbox(
    "e",
    (now) =>
      now.phase === "Paused" &&
      outcome(now)?.reason === "Succeeded" &&
      now.ramet?.restoredFrom === id &&
      findCondition(now.conditions, "RolledBack")?.message.includes("when it is resumed") === true,
  );
  expect(status?.ramet?.restoredFrom).toBe(id);
  await patch("e", { spec: { paused: false } });
  await sandbox("e", ({ phase }) => phase === "Running");
});

it("allows the checkpoint to be deleted after a rollback, and the sandbox during one", async () => {
  await running("f");
  const id = await taken("f-1", "f");
  await rollBack("f", id);
  await sandbox("f", succeeded);
  await cluster.seen.checkpoints.resource.delete({ namespace: "t", name: "f-1" });
  await cluster.untilDeleted("checkpoints", "t/f-1");
  await rollBack("f", id, "2");
  const { status } = await sandbox("f", rejectedWith("NotFound"));
  expect(status?.phase).toBe("Running");

  const second = await taken("f-2", "f");
  const pod = await cluster.pod("t/f", () => true);
  await node.end(cluster.seen.pods, pod, { phase: "Failed", message: "it was killed" });
  await sandbox("f", ({ phase }) => phase === "Failed");
  node.behaviours.set("t/f", { startError: new RametError("Unavailable", "not yet", { retryable: true }) });
  await rollBack("f", second, "3");
  await sandbox("f", ({ phase }) => phase === "Resuming");
  await cluster.seen.sandboxes.resource.delete({ namespace: "t", name: "f" });
  await cluster.untilDeleted("sandboxes", "t/f");
  expect(await cluster.seen.pods.resource.find({ namespace: "t", name: "f" })).toBeUndefined();
});

it("rolls back in a cell that reports no programs, and says that they are not known", async () => {
  await running("old");
  const id = await taken("old-1", "old");
  const io = memoryIo({ environment: { HOME: "/nowhere", KUBECONFIG: cluster.kubeconfigPath } });
  expect(await runProgram(io, ["rollback", "old", id, "-n", "t"]), io.written("stderr")).toBe(0);
  const unknown = "not known, because the sandbox has not listed its programs";
  expect(io.written("stdout")).toBe(`sandbox old rolled back to ${id}\nended: ${unknown}\nrunning: ${unknown}\n`);
});

it("reports each clone of a fork, and keeps the checkpoint while a clone may still need it", async () => {
  await running("g");
  node.behaviours.set("t/fork-1", { startError: new RametError("EngineFailed", "restore: it was refused") });
  node.ignored.add("t/fork-3");
  const io = memoryIo({ environment: { HOME: "/nowhere", KUBECONFIG: cluster.kubeconfigPath } });
  const options = ["--count", "3", "--name-prefix", "fork", "--timeout", "15s", "-n", "t", "-o", "json"];
  expect(await runProgram(io, ["fork", "g", ...options])).toBe(4);
  const { items } = JSON.parse(io.written("stdout")) as { items: Sandbox[] };
  expect(items.map(({ metadata }) => metadata.name)).toEqual(["fork-2"]);
  const progress = io.written("stderr");
  expect(progress).toContain("The sandbox fork-1 failed: restore: it was refused");
  expect(progress).toContain("Waiting for the sandbox fork-3 timed out");
  const name = /The checkpoint (\S+) is kept for a day: a clone may still need it/.exec(progress)?.[1] ?? "";
  const kept = await cluster.seen.checkpoints.resource.get({ namespace: "t", name });
  expect(kept).toMatchObject({ spec: { ttlAfterFinished: "1d" }, status: { phase: "Succeeded" } });
});
