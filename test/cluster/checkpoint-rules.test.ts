import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { memoryIo } from "../setup/memory-io.ts";
import { runProgram } from "../../src/cli/program.ts";
import { RametError } from "../../src/base/errors.ts";
import { coreResources } from "../../src/kube/resource-ref.ts";
import { spaceHint } from "../../src/store/store-error.ts";
import { gate, inPhase, reasonOf, restoreFrom, RulesWorld, template } from "./rules-world.ts";

/** Tests the rules and faults of checkpoints on a real API server, with stand-in cells that a test can block and fail. */
const world = new RulesWorld();
beforeAll(() => world.open());
afterAll(() => world.close());

it("fails a second checkpoint of one Pod with the name of the first, which succeeds", async () => {
  await world.inNewNamespace();
  await world.running("a");
  const hold = await world.capturing("first", "a");
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
      hint: spaceHint,
    },
  );
  await world.create("Checkpoint", "c", { podName: "a" });
  const { status } = await world.checkpoint("c", inPhase("Failed"));
  expect(status?.message).toBe(`publishing failed: no room. ${spaceHint} [StoreFull]`);
  expect(world.cluster.seen.sandboxes.store.get(world.at("a"))?.status?.phase).toBe("Running");
  await world.taken("again", "a");
  // What else the full store holds.
  expect(await explain("checkpoint/c")).toMatch(
    /HELD BY +4B in this namespace, most by checkpoint\/again 4B\n.*DO +Delete checkpoints .*\. The largest frees 4B: /s,
  );
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
  const cell = world.node.cells.get(world.at("a"))!;
  const hold = await world.capturing("joined", "a");
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

const ofQuota = "ramet.dev/quota of the namespace [QuotaExceeded]";

it("takes a checkpoint beyond the number of a quota when another one was deleted or the quota was raised", async () => {
  await world.inNewNamespace();
  await world.quota("checkpoints=1");
  await world.running("a");
  await world.taken("first", "a");
  await world.create("Checkpoint", "second", { podName: "a" });
  const { status } = await world.checkpoint("second", inPhase("Failed", "Succeeded"));
  expect(status?.message).toBe(
    `The checkpoint was not taken: the namespace ${world.namespace} uses 1 of 1 of its quota checkpoints. Delete checkpoints that you do not need, or let an administrator raise checkpoints in the annotation ${ofQuota}`,
  );
  expect(status?.conditions).toMatchObject([
    { type: "Ready", status: "False", reason: "QuotaExceeded" },
    { type: "Stalled", status: "True", reason: "QuotaExceeded" },
    { type: "WithinQuota", status: "False", reason: "QuotaExceeded" },
  ]);
  await world.cluster.seen.checkpoints.resource.delete({ namespace: world.namespace, name: "first" });
  await world.cluster.untilDeleted("checkpoints", world.at("first"));
  await world.taken("third", "a");
  await world.quota("checkpoints=2");
  await world.taken("fourth", "a");
});

it("counts one place of a quota once, whatever the cache shows and after a restart", async () => {
  await world.inNewNamespace();
  await world.quota("checkpoints=1");
  const names = ["a", "b", "c"];
  for (const name of names) await world.running(name);
  await Promise.all(names.map((name) => world.create("Checkpoint", name, { podName: name })));
  const ended = await Promise.all(names.map((name) => world.checkpoint(name, inPhase("Failed", "Succeeded"))));
  expect(ended.map(({ status }) => status?.phase).sort()).toEqual(["Failed", "Failed", "Succeeded"]);
  await world.cluster.restartControllers();
  await world.create("Checkpoint", "after", { podName: "a" });
  expect((await world.checkpoint("after", inPhase("Failed", "Succeeded"))).status?.phase).toBe("Failed");
});

it("keeps a sandbox running if its pause would exceed the bytes of a quota, and nothing of it in the store", async () => {
  await world.inNewNamespace();
  await world.running("a");
  await world.quota("storeBytes=1");
  await world.patch("a", { paused: true });
  const { status } = await world.sandbox("a", (now) => reasonOf(now, "SandboxPaused") === "CheckpointFailed");
  expect(status?.phase).toBe("Running");
  const message = status?.conditions?.find(({ type }) => type === "SandboxPaused")?.message;
  expect(message).toContain("uses 0 B of 1 B of its quota storeBytes");
  expect(world.node.cells.get(world.at("a"))!.state.phase).toBe("running");
  expect(await readdir(join(world.cluster.storePath, world.namespace, "checkpoints"))).toEqual([]);
});

it("fails a clone that is created paused beyond the number of a quota, with the quota as the reason", async () => {
  await world.inNewNamespace();
  await world.running("a");
  const id = await world.taken("first", "a");
  await world.quota("checkpoints=1");
  await world.create("Sandbox", "paused", { paused: true }, { "ramet.dev/restore-from": id });
  const { status } = await world.sandbox("paused", inPhase("Failed", "Paused"));
  expect(reasonOf(status ?? {}, "Ready")).toBe("QuotaExceeded");
  expect(status?.message).toContain("uses 1 of 1 of its quota checkpoints");
  expect(world.node.cells.has(world.at("paused"))).toBe(false);
});

it("removes a checkpoint that exceeds the bytes of a quota when its size is known", async () => {
  await world.inNewNamespace();
  await world.running("a");
  await world.running("b");
  const id = await world.taken("first", "a");
  const used = (await readdir(join(world.cluster.storePath, world.namespace, "checkpoints"))).length;
  expect(used).toBe(1);
  await world.quota("storeBytes=5");
  await world.create("Checkpoint", "full", { podName: "b" });
  const full = await world.checkpoint("full", inPhase("Failed", "Succeeded"));
  expect(full.status?.message).toContain("uses 4 B of 5 B of its quota storeBytes");
  const explained = JSON.parse(await explain("checkpoint/full", "-o", "json")) as object;
  expect(explained).toMatchObject({
    reason: "QuotaExceeded",
    action: expect.stringContaining(`The largest frees 4B: ramet checkpoint rm first -n ${world.namespace}`) as string,
    storage: {
      usedBytes: 4,
      holders: [{ kind: "checkpoint", name: "first", uniqueBytes: 4, sharedBytes: 0 }],
    },
  });
  expect(await explain("checkpoint/full")).toContain("HELD BY     4B in this namespace, most by checkpoint/first 4B\n");
  world.node.cells.get(world.at("b"))!.behaviour.ignoresMaxBytes = true;
  await world.create("Checkpoint", "late", { podName: "b" });
  const late = await world.checkpoint("late", inPhase("Failed", "Succeeded"));
  expect(late.status?.message).toContain("uses 8 B of 5 B of its quota storeBytes");
  expect(late.status?.ramet).toEqual({
    problems: { Ready: expect.objectContaining({ code: "QuotaExceeded" }) as unknown },
  });
  expect(await readdir(join(world.cluster.storePath, world.namespace, "checkpoints"))).toEqual([id]);
});

async function explain(...args: string[]): Promise<string> {
  const io = memoryIo({ environment: { HOME: "/nowhere", KUBECONFIG: world.cluster.kubeconfigPath } });
  expect(await runProgram(io, ["explain", ...args, "-n", world.namespace])).toBe(0);
  return io.written("stdout");
}

it("takes no checkpoint while the quota cannot be read, and names the annotation", async () => {
  await world.inNewNamespace();
  await world.running("a");
  await world.quota("checkpoint=5");
  await world.create("Checkpoint", "c", { podName: "a" });
  const { status } = await world.checkpoint("c", inPhase("Failed", "Succeeded"));
  expect(status?.message).toContain("has an invalid item: checkpoint=5");
});

it("encrypts the checkpoints of a namespace with the key of a Secret, which can be replaced", async () => {
  world.options.encryptionSecret = "none";
  await world.cluster.restartControllers();
  await world.inNewNamespace();
  await world.annotateNamespace("ramet.dev/encryption-secret", "team-keys");
  await world.running("a");
  await world.create("Checkpoint", "early", { podName: "a" });
  const early = await world.checkpoint("early", inPhase("Failed", "Succeeded"));
  expect(early.status?.message).toBe(
    "The key for checkpoints cannot be used: the Secret team-keys in the namespace ramet-system does not exist. Create the Secret, or restore its keys from your backup [KeyUnavailable]",
  );
  const keys = (data: Record<string, string | null>) =>
    world.cluster.client
      .resource(coreResources.secrets)
      .apply(
        { apiVersion: "v1", kind: "Secret", metadata: { name: "team-keys", namespace: "ramet-system" }, data },
        { fieldManager: "test", force: true },
      );
  const [k1, k2] = [1, 2].map((byte) => Buffer.alloc(32, byte).toString("base64"));
  const current = (name: string) => Buffer.from(`${name}\n`).toString("base64");
  await keys({ current: current("k1"), k1: k1! });
  const first = await world.taken("first", "a");
  await keys({ current: current("k2"), k1: k1!, k2: k2! });
  const second = await world.taken("second", "a");
  for (const id of [first, second]) {
    const image = join(world.cluster.storePath, world.namespace, "checkpoints", id, "image", "checkpoint.img");
    expect((await readFile(image)).includes("of a")).toBe(false);
    await world.create("Sandbox", `of-${id}`, { template }, { [restoreFrom]: id });
    await world.sandbox(`of-${id}`, inPhase("Running", "Failed"));
    expect(world.node.cells.get(world.at(`of-${id}`))).toMatchObject({ restored: id, content: "of a" });
  }
  await keys({ current: current("k2"), k2: k2! });
  await world.create("Sandbox", "late", { template }, { [restoreFrom]: first });
  const { status } = await world.sandbox("late", inPhase("Failed"));
  expect(status?.message).toContain("the key k1 of the Secret team-keys in the namespace ramet-system does not exist");
});
