import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { RametError } from "../../src/base/errors.ts";
import { gate, inPhase, RulesWorld, template } from "./rules-world.ts";

/** Tests the rules and faults of checkpoints on a real API server, with stand-in cells that a test can block and fail. */
const world = new RulesWorld();
beforeAll(() => world.open());
afterAll(() => world.close());

it("fails a second checkpoint of one Pod with the name of the first, which succeeds", async () => {
  await world.inNewNamespace();
  await world.running("a");
  const hold = gate();
  world.node.cells.get(world.at("a"))!.behaviour.captureGate = hold.promise;
  await world.create("Checkpoint", "first", { podName: "a" });
  await world.checkpoint("first", inPhase("Creating"));
  await world.create("Checkpoint", "second", { sandboxName: "a" });
  const { status } = await world.checkpoint("second", inPhase("Failed", "Succeeded"));
  expect(status?.phase).toBe("Failed");
  expect(status?.message).toContain("first of the sandbox a has not finished");
  hold.resolve(undefined);
  await world.checkpoint("first", inPhase("Succeeded"));
  await world.taken("third", "a");
});

it("fails a checkpoint of a sandbox that is not Ready", async () => {
  await world.inNewNamespace();
  world.node.ignored.add(world.at("a"));
  await world.create("Sandbox", "a", { template });
  await world.sandbox("a", inPhase("Pending"));
  await world.create("Checkpoint", "c", { podName: "a" });
  const { status } = await world.checkpoint("c", inPhase("Failed"));
  expect(status?.message).toContain("the Pod a is Pending, not Running");
  await world.create("Checkpoint", "none", { podName: "nobody" });
  const none = await world.checkpoint("none", inPhase("Failed"));
  expect(none.status?.message).toContain("the namespace has no sandbox nobody");
});

it("reports why a capture failed, and keeps the source running", async () => {
  await world.inNewNamespace();
  await world.running("a");
  world.node.cells.get(world.at("a"))!.behaviour.captureError = new RametError(
    "StoreFull",
    "publishing failed: no room",
    {
      hint: "Make room",
    },
  );
  await world.create("Checkpoint", "c", { podName: "a" });
  const { status } = await world.checkpoint("c", inPhase("Failed"));
  expect(status?.message).toBe("publishing failed: no room. Make room [StoreFull]");
  expect(world.cluster.seen.sandboxes.store.get(world.at("a"))?.status?.phase).toBe("Running");
  await world.taken("again", "a");
});

it("finishes a checkpoint that is deleted during its capture, and then deletes it with its data", async () => {
  await world.inNewNamespace();
  await world.running("a");
  const hold = gate();
  world.node.cells.get(world.at("a"))!.behaviour.captureGate = hold.promise;
  await world.create("Checkpoint", "c", { podName: "a" });
  await expect.poll(() => world.node.cells.get(world.at("a"))!.state.checkpointing).toBeDefined();
  await world.cluster.seen.checkpoints.resource.delete({ namespace: world.namespace, name: "c" });
  await world.cluster.checkpoint(world.at("c"), ({ metadata }) => metadata.deletionTimestamp !== undefined);
  expect(world.node.cells.get(world.at("a"))!.state.checkpointing).toBeDefined();
  hold.resolve(undefined);
  await world.cluster.untilDeleted("checkpoints", world.at("c"));
  expect(await readdir(join(world.cluster.storePath, world.namespace, "checkpoints"))).toEqual([]);
});

it("resumes a checkpoint when the controllers restart during its capture", async () => {
  await world.inNewNamespace();
  await world.running("a");
  const hold = gate();
  const cell = world.node.cells.get(world.at("a"))!;
  cell.behaviour.captureGate = hold.promise;
  await world.create("Checkpoint", "joined", { podName: "a" });
  await world.checkpoint("joined", inPhase("Creating"));
  await world.cluster.restartControllers();
  hold.resolve(undefined);
  await world.checkpoint("joined", inPhase("Succeeded"));

  const second = gate();
  cell.behaviour.captureGate = second.promise;
  await world.create("Checkpoint", "found", { podName: "a", keepRunning: false });
  await world.checkpoint("found", inPhase("Creating"));
  await world.cluster.stopControllers();
  second.resolve(undefined);
  await expect.poll(() => cell.state.phase).toBe("paused");
  await world.cluster.startControllers();
  await world.checkpoint("found", inPhase("Succeeded"));
  await world.sandbox("a", inPhase("Succeeded"));
  expect(cell.calls.filter((call) => call === "stop")).toHaveLength(1);
});

it("fails an unpublished checkpoint whose Pod was deleted while no controller ran", async () => {
  await world.inNewNamespace();
  await world.running("a");
  world.node.cells.get(world.at("a"))!.behaviour.captureGate = gate().promise;
  await world.create("Checkpoint", "c", { podName: "a" });
  await world.checkpoint("c", inPhase("Creating"));
  await world.cluster.stopControllers();
  await world.cluster.seen.pods.resource.delete({ namespace: world.namespace, name: "a" }, { gracePeriodSeconds: 0 });
  await world.cluster.untilDeleted("pods", world.at("a"));
  await world.cluster.startControllers();
  const { status } = await world.checkpoint("c", inPhase("Failed"));
  expect(status?.message).toContain("the Pod a no longer exists");
  expect(status?.message).toContain("SandboxLost");
  const lost = await world.sandbox("a", inPhase("Failed"));
  expect(lost.status?.message).toContain("Pod Not Found");
});

it("fails a checkpoint with the Pod's message as soon as its Pod has ended, although the cell never responds", async () => {
  await world.inNewNamespace();
  await world.running("a");
  world.node.cells.get(world.at("a"))!.behaviour.captureGate = gate().promise;
  await world.create("Checkpoint", "c", { podName: "a" });
  await world.checkpoint("c", inPhase("Creating"));
  const pod = await world.cluster.pod(world.at("a"), () => true);
  // The cell keeps the connection open: only the Pod's status shows the end.
  await world.cluster.seen.pods.resource.mergePatch(
    pod.metadata,
    { status: { phase: "Failed", message: "the cell was killed by signal 9" } },
    { subresource: "status" },
  );
  const { status } = await world.checkpoint("c", inPhase("Failed", "Succeeded"));
  expect(status?.message).toMatch(/the Pod a has ended: the cell was killed by signal 9.*\[SandboxLost\]/);
});

it("fails a checkpoint as soon as its Pod is deleted, and removes it if it was deleted meanwhile", async () => {
  await world.inNewNamespace();
  for (const [name, isDeleted] of [
    ["kept", false],
    ["deleted", true],
  ] as const) {
    await world.running(name);
    world.node.cells.get(world.at(name))!.behaviour.captureGate = gate().promise;
    await world.create("Checkpoint", `of-${name}`, { podName: name });
    await world.checkpoint(`of-${name}`, inPhase("Creating"));
    if (isDeleted)
      await world.cluster.seen.checkpoints.resource.delete({ namespace: world.namespace, name: `of-${name}` });
    await world.cluster.seen.pods.resource.delete({ namespace: world.namespace, name }, { gracePeriodSeconds: 0 });
    if (isDeleted) await world.cluster.untilDeleted("checkpoints", world.at(`of-${name}`));
    else
      expect((await world.checkpoint(`of-${name}`, inPhase("Failed"))).status?.message).toContain(
        "the Pod kept no longer exists",
      );
  }
});

it("succeeds if the checkpoint was published before its Pod ended", async () => {
  await world.inNewNamespace();
  await world.running("a");
  const cell = world.node.cells.get(world.at("a"))!;
  cell.behaviour.captureResponseGate = gate().promise;
  await world.create("Checkpoint", "c", { podName: "a" });
  const { status: creating } = await world.checkpoint("c", inPhase("Creating"));
  const data = join(world.cluster.storePath, world.namespace, "checkpoints", creating?.checkpointId ?? "");
  await expect.poll(() => readdir(data).catch(() => []), { interval: 5 }).not.toEqual([]);
  await world.cluster.seen.pods.resource.delete({ namespace: world.namespace, name: "a" }, { gracePeriodSeconds: 0 });
  const { status } = await world.checkpoint("c", inPhase("Succeeded", "Failed"));
  expect(status).toMatchObject({ phase: "Succeeded", ramet: { contents: ["memory", "filesystem"] } });
  expect(status).not.toHaveProperty("message");
});

it("deletes a checkpoint after its time to live", async () => {
  await world.inNewNamespace();
  await world.running("a");
  await world.create("Checkpoint", "c", { podName: "a", ttlAfterFinished: "1s" });
  await world.checkpoint("c", inPhase("Succeeded"));
  await world.cluster.untilDeleted("checkpoints", world.at("c"));
});
