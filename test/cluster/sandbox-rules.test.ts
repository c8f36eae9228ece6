import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { RametError } from "../../src/base/errors.ts";
import { annotations } from "../../src/api/names/labels.ts";
import { CellConfig } from "../../src/api/wire/cell-api.ts";
import { runProgram } from "../../src/cli/program.ts";
import { coreResources } from "../../src/kube/resource-ref.ts";
import { memoryIo } from "../setup/memory-io.ts";
import { gate, inPhase, reasonOf, restoreFrom, RulesWorld, template } from "./rules-world.ts";
import { followStatuses, withoutNotices, writeOf } from "./counted-writes.ts";

/** Tests the rules and faults of sandboxes and clones on a real API server, with stand-in cells that a test can block and fail. */
const world = new RulesWorld();
beforeAll(() => world.open());
afterAll(() => world.close());

it("writes a sandbox three times and creates one Pod for it, and writes a checkpoint three times and creates its template", async () => {
  await world.inNewNamespace();
  // The first sandbox starts slowly.
  await world.running("first");
  const written: string[] = [];
  /** The writes so far. A watch can show a write's effect before its response arrives. */
  const writes = () => {
    const records = world.cluster
      .requests()
      .filter(({ verb, name }) => ["create", "patch", "update"].includes(verb) && name !== "first")
      .filter(({ resource }) => ["pods", "sandboxes", "checkpoints", "sandboxtemplates"].includes(resource.plural));
    written.push(...records.map(writeOf));
    return written.toSorted();
  };
  writes();
  written.length = 0;
  const statuses = followStatuses(world.cluster.seen.sandboxes, "a", ({ status }) =>
    status?.phase === "Pending" ? (status.message ?? "") : undefined,
  );
  await world.running("a");
  // The finalizer, the Pod in which it starts, and that it runs.
  await expect
    .poll(() => withoutNotices(writes(), statuses, "patch sandboxes status"))
    .toEqual(["create pods", "patch sandboxes", "patch sandboxes status", "patch sandboxes status"]);
  statuses.stop();
  // The notices have different reasons, so none is written twice.
  expect(new Set(statuses.notices()).size).toBe(statuses.notices().length);
  expect(statuses.notices().length).toBeLessThanOrEqual(2);
  written.length = 0;
  await world.taken("c", "a");
  await expect
    .poll(writes)
    .toEqual(["create sandboxtemplates", "patch checkpoints", "patch checkpoints status", "patch checkpoints status"]);
});

it("gives each sandbox its own identity, and the environment of its template", async () => {
  await world.inNewNamespace();
  await world.running("a");
  const id = await world.taken("c", "a");
  await world.create("Sandbox", "b", {}, { [restoreFrom]: id });
  await world.sandbox("b", inPhase("Running"));
  const [a, b] = [world.node.cells.get(world.at("a"))!, world.node.cells.get(world.at("b"))!];
  expect(a.identity).toMatchObject({ sandboxId: `${world.namespace}--a`, hostname: "a", environment: { A: "1" } });
  expect(b.identity).toMatchObject({ sandboxId: `${world.namespace}--b`, hostname: "b" });
  expect(a.identity?.accessToken).not.toBe(b.identity?.accessToken);
  expect(b.restored).toBe(id);
});

it("names a template that does not exist yet, and starts the sandbox once it does", async () => {
  await world.inNewNamespace();
  await world.create("Sandbox", "a", { templateRef: { name: "later" } });
  const { status } = await world.sandbox("a", (now) => reasonOf(now, "Ready") === "PodCreateFailed");
  expect(status).toMatchObject({ phase: "Pending" });
  expect(status?.message).toMatch(/SandboxTemplate later does not exist in the namespace n\d+\. Create it/);
  await world.create("SandboxTemplate", "later", { template });
  await world.sandbox("a", inPhase("Running"));
});

it("rejects a template without an image with the field's name", async () => {
  await world.inNewNamespace();
  await world.create("Sandbox", "a", { template: { spec: { containers: [{ name: "main" }] } } });
  const { status } = await world.sandbox("a", (now) => reasonOf(now, "Ready") === "PodCreateFailed");
  expect(status?.message).toContain("spec.template.spec.containers[0].image");
});

it("gives a sandbox without a limit of ephemeral storage the layer of its namespace, and names an annotation that is invalid", async () => {
  await world.inNewNamespace();
  await world.annotateNamespace(annotations.writableLayerSize, "much");
  await world.create("Sandbox", "a", { template });
  const { status } = await world.sandbox("a", (now) => reasonOf(now, "Ready") === "PodCreateFailed");
  expect(status?.message).toContain(
    `The annotation ${annotations.writableLayerSize} of the namespace ${world.namespace} is not a Kubernetes quantity: "much"`,
  );
  await world.annotateNamespace(annotations.writableLayerSize, "3Gi");
  await world.sandbox("a", inPhase("Running"));
  await world.running("b");
  const pod = world.cluster.seen.pods.store.get(world.at("b"));
  const config = pod?.spec.containers[0]?.env?.find(({ name }) => name === "RAMET_CELL")?.value ?? "";
  expect(CellConfig.parse(JSON.parse(config)).layerBytes).toBe(3 * 1024 ** 3);
});

it("waits with its files for the undoing of a change of its image", async () => {
  await world.inNewNamespace();
  await world.create("Sandbox", "a", { template, persistentContents: ["filesystem"] });
  await world.sandbox("a", inPhase("Running"));
  await world.patch("a", { paused: true });
  await world.sandbox("a", inPhase("Paused"));
  const [container] = template.spec.containers;
  await world.patch("a", { template: { spec: { containers: [{ ...container, image: "another" }] } }, paused: false });
  const { status } = await world.sandbox("a", (now) => reasonOf(now, "Ready") === "TemplateMismatch");
  expect(status?.phase).toBe("Resuming");
  expect(status?.message).toMatch(/^The sandbox cannot be resumed with its files: .*image.*Undo the change/);
  await world.patch("a", { template: { spec: { containers: [{ ...container, args: ["other"] }] } } });
  await world.sandbox("a", inPhase("Running"));
});

it("fails a clone if no checkpoint of its namespace has the id, even if one of another namespace does", async () => {
  await world.inNewNamespace();
  await world.running("a");
  const id = await world.taken("c", "a");
  await world.inNewNamespace();
  await world.create("Sandbox", "b", { template }, { [restoreFrom]: id });
  const { status } = await world.sandbox("b", inPhase("Failed"));
  expect(status?.message).toContain(`No checkpoint in the namespace ${world.namespace} has the id ${id}`);
  expect(status?.message).toContain(`ramet checkpoint ls -n ${world.namespace}`);
  expect(reasonOf(status!, "Ready")).toBe("NotFound");
});

it("lets a clone wait for an unfinished checkpoint, and fails the clone if the checkpoint fails", async () => {
  await world.inNewNamespace();
  await world.running("a");
  const hold = gate();
  const { behaviour } = world.node.cells.get(world.at("a"))!;
  behaviour.captureGate = hold.promise;
  await world.create("Checkpoint", "c", { podName: "a" });
  const { status } = await world.checkpoint("c", inPhase("Creating"));
  const id = status?.checkpointId ?? "";
  await world.create("Sandbox", "b", { template }, { [restoreFrom]: id });
  await world.sandbox("b", ({ message }) => message === "Waiting for the checkpoint c to succeed");
  behaviour.captureError = new RametError("EngineFailed", "gVisor could not");
  hold.resolve(undefined);
  const { status: refused } = await world.sandbox("b", inPhase("Failed", "Running"));
  expect(refused?.message).toContain(`The checkpoint ${id} (c) cannot be cloned: it has failed`);
});

it("reports a failed restore in the clone's message", async () => {
  await world.inNewNamespace();
  await world.running("a");
  const id = await world.taken("c", "a");
  world.node.behaviours.set(world.at("b"), {
    startError: new RametError("EngineFailed", "restore: gVisor refused it"),
  });
  await world.create("Sandbox", "b", {}, { [restoreFrom]: id });
  const { status } = await world.sandbox("b", inPhase("Failed"));
  expect(status?.message).toBe("restore: gVisor refused it [EngineFailed]");
});

it("fails a sandbox whose Pod ends, with the Pod's message", async () => {
  await world.inNewNamespace();
  await world.running("a");
  await world.node.end(world.cluster.seen.pods, await world.cluster.pod(world.at("a"), () => true), {
    phase: "Failed",
    message: "the sandbox ran out of memory",
  });
  const { status } = await world.sandbox("a", inPhase("Failed"));
  expect(status?.message).toBe("the sandbox ran out of memory");
});

it("pauses without a checkpoint with strategy Stop, and boots again at the resume", async () => {
  await world.inNewNamespace();
  await world.create("Sandbox", "a", { template, pauseStrategy: { type: "Stop" } });
  await world.sandbox("a", inPhase("Running"));
  await world.patch("a", { paused: true });
  const paused = await world.sandbox("a", (status) => reasonOf(status, "SandboxPaused") === "StopPauseSucceed");
  expect(paused.status?.phase).toBe("Paused");
  expect(
    world.cluster.seen.checkpoints.store.list().filter(({ metadata }) => metadata.namespace === world.namespace),
  ).toEqual([]);
  await world.patch("a", { paused: false });
  const resumed = await world.sandbox("a", inPhase("Running"));
  expect(reasonOf(resumed.status!, "SandboxResumed")).toBe("ResumePod");
  expect(world.node.cells.get(world.at("a"))!.calls).toEqual(["boot"]);
});

it("keeps a sandbox running if the checkpoint of its pause fails, and can pause it later", async () => {
  await world.inNewNamespace();
  await world.running("a");
  world.node.cells.get(world.at("a"))!.behaviour.captureError = new RametError("StoreFull", "no room");
  await world.patch("a", { paused: true });
  const { status } = await world.sandbox("a", (now) => reasonOf(now, "SandboxPaused") === "CheckpointFailed");
  expect(status?.phase).toBe("Running");
  await world.patch("a", { paused: false });
  await world.sandbox("a", (now) => reasonOf(now, "SandboxPaused") === undefined);
  await world.patch("a", { paused: true });
  await world.sandbox("a", (now) => reasonOf(now, "SandboxPaused") === "SnapshotPauseSucceed");
});

it("reports a failed pause in the command and in the list, without waiting for its timeout", async () => {
  await world.inNewNamespace();
  await world.running("a");
  const { behaviour } = world.node.cells.get(world.at("a"))!;
  behaviour.captureError = new RametError("StoreFull", "no room", { hint: "Delete checkpoints" });
  const failed = await ramet("pause", "a", "--timeout", "0");
  expect(failed).toMatchObject({ exitCode: 1, stdout: "" });
  expect(failed.stderr).toMatch(/^error: The sandbox a was not paused: .*no room/);
  expect(failed.stderr).toContain("ramet sandbox resume a && ramet sandbox pause a");
  expect(failed.stderr).toContain("[StoreFull]");
  expect((await ramet("ls")).stdout).toMatch(/a +Running .*no room/);
  expect((await ramet("resume", "a", "--timeout", "0")).exitCode).toBe(0);
  expect((await ramet("pause", "a", "--timeout", "0")).exitCode).toBe(0);
});

async function ramet(...args: string[]) {
  const io = memoryIo({ environment: { HOME: "/nowhere" } });
  const flags = ["-n", world.namespace, "--kubeconfig", world.cluster.kubeconfigPath];
  const exitCode = await runProgram(io, ["sandbox", ...args, ...flags]);
  return { exitCode, stdout: io.written("stdout"), stderr: io.written("stderr") };
}

it("resumes a sandbox whose pause is cancelled during its checkpoint", async () => {
  await world.inNewNamespace();
  await world.running("a");
  const hold = gate();
  world.node.cells.get(world.at("a"))!.behaviour.captureGate = hold.promise;
  await world.patch("a", { paused: true });
  await world.sandbox("a", (now) => reasonOf(now, "SandboxPaused") === "CheckpointCreating");
  await world.patch("a", { paused: false });
  hold.resolve(undefined);
  const { status } = await world.sandbox("a", (now) => reasonOf(now, "SandboxResumed") === "ResumePod");
  expect(status?.phase).toBe("Running");
  expect(world.node.cells.get(world.at("a"))!.calls).toEqual(["restore"]);
});

it("pauses a sandbox at its pauseTime, and deletes it at its shutdownTime", async () => {
  await world.inNewNamespace();
  const soon = () => new Date(Date.now() + 1_000).toISOString();
  await world.create("Sandbox", "p", { template, pauseTime: soon() });
  await world.create("Sandbox", "s", { template, shutdownTime: soon() });
  await world.sandbox("p", inPhase("Paused"));
  await world.cluster.untilDeleted("sandboxes", world.at("s"));
  await world.create("Sandbox", "past", { template, shutdownTime: "2020-01-01T00:00:00Z" });
  await world.cluster.untilDeleted("sandboxes", world.at("past"));
});

it("deletes a Pod whose Sandbox was deleted while no controller ran", async () => {
  await world.inNewNamespace();
  await world.running("a");
  await world.cluster.stopControllers();
  await world.cluster.seen.sandboxes.resource.mergePatch(
    { namespace: world.namespace, name: "a" },
    { metadata: { finalizers: null } },
  );
  await world.cluster.seen.sandboxes.resource.delete({ namespace: world.namespace, name: "a" });
  await world.cluster.startControllers();
  await world.cluster.untilDeleted("pods", world.at("a"));
});

it("does not touch another owner's Pod with the sandbox's name", async () => {
  await world.inNewNamespace();
  await world.cluster.client.resource(coreResources.pods).create({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "a", namespace: world.namespace },
    spec: { containers: [{ name: "other", image: "other" }] },
  });
  await world.create("Sandbox", "a", { template });
  const { status } = await world.sandbox("a", ({ message }) => (message ?? "").includes("belongs to something else"));
  expect(status?.phase).toBe("Pending");
  expect(
    await world.cluster.client.resource(coreResources.pods).find({ namespace: world.namespace, name: "a" }),
  ).toBeDefined();
});

it("exits when the store belongs to another cluster, and sweeps nothing in it", async () => {
  const marker = join(world.cluster.storePath, "store.json");
  const own = await readFile(marker, "utf8");
  await world.cluster.stopControllers();
  await rm(marker);
  await writeFile(marker, JSON.stringify({ v: 1, cluster: "11111111-2222-3333-4444-555555555555" }));
  try {
    await expect(world.cluster.startControllers()).rejects.toMatchObject({
      code: "StoreOfAnotherCluster",
      message: expect.stringContaining("11111111-2222-3333-4444-555555555555") as string,
      hint: expect.stringContaining(marker) as string,
    });
  } finally {
    await rm(marker);
    await writeFile(marker, own);
    await world.cluster.stopControllers().catch(() => undefined);
    await world.cluster.startControllers();
  }
});

it("records transitions as Events", async () => {
  await world.inNewNamespace();
  await world.running("a");
  await world.taken("c", "a");
  await world.cluster.restartControllers();
  const { items } = await world.cluster.client.resource(coreResources.events).list({ namespace: world.namespace });
  const reasons = items.map((event) => (event as unknown as { reason: string }).reason);
  expect(reasons).toEqual(expect.arrayContaining(["SandboxRunning", "CheckpointSucceeded"]));
});

it("applies the variables of an annotation to new and running sandboxes, and keeps them over a pause", async () => {
  await world.inNewNamespace();
  const request = "agents.kruise.io/init-runtime-request";
  const sealedRequest = "ramet.dev/sealed-init-request";
  const ask = (text: string | null) =>
    world.cluster.seen.sandboxes.resource.mergePatch(
      { namespace: world.namespace, name: "a" },
      { metadata: { annotations: { [request]: text, ...(text === null && { [sealedRequest]: null }) } } },
    );
  const environment = () => world.node.cells.get(world.at("a"))?.identity?.environment;
  await world.create("Sandbox", "a", { template }, { [request]: '{"envVars":{"B":"2"}}' });
  const started = await world.sandbox("a", inPhase("Running"));
  expect(environment()).toEqual({ A: "1", B: "2" });
  expect(world.node.cells.get(world.at("a"))?.calls).toEqual(["boot"]);
  expect(reasonOf(started.status!, "RuntimeInitialized")).toBe("Succeeded");
  // Everyone who can list Sandboxes reads annotations.
  const { annotations: sealed = {} } = started.metadata;
  expect(Object.keys(sealed)).toEqual([sealedRequest]);
  expect(Object.values(sealed).join()).toMatch(/^v1\.[-\w]+$/);

  await ask('{"envVars":{"A":"own"}}');
  await world.sandbox("a", ({ ramet }) => ramet?.initRequest !== started.status?.ramet?.initRequest);
  expect(environment()).toEqual({ A: "own" });
  expect(world.node.cells.get(world.at("a"))?.calls).toEqual(["boot", "identity"]);

  // A controller that stopped before it recorded the handover repeats it: the cell accepts the same identity again.
  await world.cluster.stopControllers();
  await ask('{"envVars":{"A":"new"}}');
  await world.cluster.startControllers();
  await expect.poll(environment).toEqual({ A: "new" });

  await ask("{");
  const refused = await world.sandbox("a", (status) => reasonOf(status, "RuntimeInitialized") === "Failed");
  expect(refused.status?.conditions?.find(({ type }) => type === "RuntimeInitialized")?.message).toContain(
    "it is not JSON",
  );
  expect(refused.status?.phase).toBe("Running");

  await ask('{"envVars":{"A":"kept"}}');
  await world.sandbox("a", (status) => reasonOf(status, "RuntimeInitialized") === "Succeeded");
  await world.patch("a", { paused: true });
  await world.sandbox("a", inPhase("Paused"));
  await world.patch("a", { paused: false });
  await world.sandbox("a", inPhase("Running"));
  expect(environment()).toEqual({ A: "kept" });
  await ask(null);
  await expect.poll(environment).toEqual({ A: "1" });
});

it("creates volume claims before the Pod that mounts them, and never uses claims of another owner", async () => {
  await world.inNewNamespace();
  const claims = world.cluster.client.resource(coreResources.persistentVolumeClaims);
  const claimSpec = { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } };
  const volumeClaimTemplates = [{ metadata: { name: "data", labels: { tier: "hot" } }, spec: claimSpec }];
  await world.create("Sandbox", "a", { template, volumeClaimTemplates });
  const { metadata } = await world.sandbox("a", inPhase("Running"));
  const claim = await claims.get({ namespace: world.namespace, name: "data-a" });
  expect(claim).toMatchObject({
    metadata: { labels: { tier: "hot" }, ownerReferences: [{ kind: "Sandbox", name: "a", uid: metadata.uid }] },
    spec: claimSpec,
  });
  const pod = await world.cluster.pod(world.at("a"), () => true);
  expect(pod.spec.volumes).toContainEqual({ name: "data", persistentVolumeClaim: { claimName: "data-a" } });

  // A clone from a checkpoint's template has its own claims.
  await world.create(
    "Sandbox",
    "b",
    {},
    { [restoreFrom]: await world.taken("c", "a"), [annotations.volumesOnRestore]: "Empty" },
  );
  const clone = await world.sandbox("b", inPhase("Running"));
  expect(clone.spec.volumeClaimTemplates).toEqual(volumeClaimTemplates);
  await claims.get({ namespace: world.namespace, name: "data-b" });

  const foreign = {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: { name: "data-d", namespace: world.namespace },
  };
  await claims.create({ ...foreign, spec: claimSpec });
  await world.create("Sandbox", "d", { template, volumeClaimTemplates });
  const { status } = await world.sandbox("d", ({ message }) => message?.includes("data-d") === true);
  expect(status).toMatchObject({ phase: "Pending", conditions: [{ type: "Ready", reason: "PodCreateFailed" }] });
  expect(world.cluster.seen.pods.store.get(world.at("d"))).toBeUndefined();
  await claims.delete({ namespace: world.namespace, name: "data-d" });
  await world.create("Sandbox", "e", { template, volumeClaimTemplates: [{ spec: claimSpec }] });
  await world.sandbox(
    "e",
    ({ message }) => message?.startsWith("The Pod cannot be created: spec.volumeClaimTemplates[0].metadata") === true,
  );
});
