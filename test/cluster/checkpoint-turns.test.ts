import { afterAll, beforeAll, expect, it } from "vitest";
import { inPhase, reasonOf, RulesWorld, template } from "./rules-world.ts";

/** Tests the order of checkpoints and pauses of one sandbox on a real API server, with stand-in cells that a test can block. */
const world = new RulesWorld();
beforeAll(() => world.open());
afterAll(() => world.close());

const waitsTurn = { "ramet.dev/waits-turn": "true" };

it("takes checkpoints of one Pod one after another if they wait for their turn", async () => {
  await world.inNewNamespace();
  await world.running("a");
  const hold = await world.capturing("first", "a");
  for (const name of ["second", "third"]) await world.create("Checkpoint", name, { sandboxName: "a" }, waitsTurn);
  const { status } = await world.checkpoint("second", inPhase("Pending", "Failed"));
  expect(status?.conditions).toMatchObject([{ type: "Ready", message: "It is captured when first has finished" }]);
  hold.resolve(undefined);
  const taken = await Promise.all(
    ["first", "second", "third"].map((name) => world.checkpoint(name, inPhase("Succeeded", "Failed"))),
  );
  expect(taken.map((one) => one.status?.phase)).toEqual(["Succeeded", "Succeeded", "Succeeded"]);
  expect(new Set(taken.map((one) => one.status?.checkpointId)).size).toBe(3);
});

it("passes over a waiting checkpoint that is deleted, and that a finalizer of somebody else keeps", async () => {
  await world.inNewNamespace();
  await world.running("a");
  const hold = await world.capturing("first", "a");
  await world.create("Checkpoint", "kept", { podName: "a" }, waitsTurn);
  await world.checkpoint("kept", inPhase("Pending"));
  await world.create("Checkpoint", "last", { podName: "a" }, waitsTurn);
  await world.checkpoint("last", inPhase("Pending"));
  const { resource } = world.cluster.seen.checkpoints;
  const at = { namespace: world.namespace, name: "kept" };
  await resource.mergePatch(at, { metadata: { finalizers: ["example.com/backup"] } });
  await resource.delete(at);
  hold.resolve(undefined);
  const { status } = await world.checkpoint("last", inPhase("Succeeded", "Failed"));
  expect(status?.phase).toBe("Succeeded");
  await world.patch("a", { paused: true });
  await world.sandbox("a", inPhase("Paused"));
  await resource.mergePatch(at, { metadata: { finalizers: [] } });
});

it("pauses after the capture that has begun, before checkpoints that wait, which then share the data of the pause", async () => {
  await world.inNewNamespace();
  await world.running("a");
  const hold = await world.capturing("first", "a");
  const queue = ["second", "third"];
  for (const name of queue) {
    await world.create("Checkpoint", name, { podName: "a" }, waitsTurn);
    await world.checkpoint(name, inPhase("Pending"));
  }
  await world.patch("a", { paused: true });
  const { status } = await world.sandbox("a", (now) => reasonOf(now, "SandboxPaused") === "Pending");
  const paused = status?.conditions?.find(({ type }) => type === "SandboxPaused");
  expect(paused?.message).toBe("The pause waits for the checkpoint first, which is being taken");
  hold.resolve(undefined);
  await world.sandbox("a", inPhase("Paused"));
  for (const name of queue) {
    const ended = await world.checkpoint(name, inPhase("Succeeded", "Failed"));
    expect(ended.status?.message).toBeUndefined();
    expect(ended.status?.phase).toBe("Succeeded");
  }
});

it("waits with a checkpoint that waits for its turn until the sandbox has started, and not for a start that is refused", async () => {
  await world.inNewNamespace();
  world.node.ignored.add(world.at("a"));
  await world.create("Sandbox", "a", { template });
  await world.sandbox("a", inPhase("Pending"));
  await world.create("Checkpoint", "c", { sandboxName: "a" }, waitsTurn);
  const { status } = await world.checkpoint("c", inPhase("Pending", "Failed"));
  expect(status?.conditions).toMatchObject([{ type: "Ready", message: "It is captured when the sandbox is Ready" }]);
  // In which order they are captured is not known if both are of one second.
  await world.create("Checkpoint", "later", { sandboxName: "a" }, waitsTurn);
  const { resource } = world.cluster.seen.pods;
  const at = { namespace: world.namespace, name: "a" };
  const waiting = (reason: string) => ({
    phase: "Pending",
    containerStatuses: [{ name: "main", state: { waiting: { reason, message: "no such image" } } }],
  });
  await resource.mergePatch(at, { status: waiting("ImagePullBackOff") }, { subresource: "status" });
  for (const name of ["c", "later"]) await world.checkpoint(name, inPhase("Failed"));
});

it("captures a sandbox that was starting when the checkpoint was requested", async () => {
  await world.inNewNamespace();
  world.node.ignored.add(world.namespace);
  await world.create("Sandbox", "a", { template });
  await world.create("Checkpoint", "c", { sandboxName: "a" }, waitsTurn);
  await world.checkpoint("c", inPhase("Pending"));
  await world.sandbox("a", inPhase("Pending"));
  await world.node.release(world.cluster.client, world.namespace);
  expect((await world.checkpoint("c", inPhase("Failed", "Succeeded"))).status?.phase).toBe("Succeeded");
});

it("waits with a checkpoint that waits for its turn until the sandbox is Ready", async () => {
  await world.inNewNamespace();
  const readinessProbe = { exec: { command: ["true"] } };
  const containers = [{ name: "main", image: "python", readinessProbe }];
  await world.create("Sandbox", "a", { template: { spec: { containers } } });
  await world.sandbox("a", (now) => reasonOf(now, "Ready") === "PodReady");
  const { metadata } = await world.cluster.pod(world.at("a"), () => true);
  const setReady = (status: string) =>
    world.cluster.seen.pods.resource.mergePatch(
      metadata,
      { status: { conditions: [{ type: "Ready", status, lastTransitionTime: "2030-01-01T00:00:00Z" }] } },
      { subresource: "status" },
    );
  await setReady("False");
  await world.sandbox("a", (now) => reasonOf(now, "Ready") !== "PodReady");
  await world.create("Checkpoint", "c", { podName: "a" }, waitsTurn);
  const { status } = await world.checkpoint("c", inPhase("Pending", "Failed", "Succeeded"));
  expect(status?.conditions).toMatchObject([{ message: "It is captured when the sandbox is Ready" }]);
  await setReady("True");
  expect((await world.checkpoint("c", inPhase("Failed", "Succeeded"))).status?.phase).toBe("Succeeded");
});
