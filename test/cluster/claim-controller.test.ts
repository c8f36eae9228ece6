import { afterAll, beforeAll, expect, it } from "vitest";
import { RametError } from "../../src/base/errors.ts";
import { annotations, labels } from "../../src/api/names/labels.ts";
import type { Sandbox } from "../../src/api/kinds/sandbox.ts";
import { memoryIo } from "../setup/memory-io.ts";
import { runProgram } from "../../src/cli/program.ts";
import type { RequestRecord } from "../../src/kube/kube-client.ts";
import type { SandboxClaim } from "../../src/api/kinds/sandbox-claim.ts";
import { openCluster, type Cluster } from "./controllers-cluster.ts";
import { StandInNode } from "./controllers-stand-in-node.ts";
import { followStatuses, withoutNotices, writeOf } from "./counted-writes.ts";

/** Tests SandboxClaims with a real API server and the real controllers. The cells are stand-ins, in which nothing runs. */
const node = new StandInNode();
let cluster: Cluster;
let namespace = "";
let number = 0;

beforeAll(async () => {
  cluster = await openCluster({ startNode: (context) => node.start(context) });
});
afterAll(() => cluster.close());

const apiVersion = "agents.kruise.io/v1alpha1";
const template = { spec: { containers: [{ name: "main", image: "python", env: [{ name: "A", value: "1" }] }] } };
const at = (name: string) => `${namespace}/${name}`;

async function inNewNamespace(): Promise<void> {
  namespace = `sc${++number}`;
  await cluster.namespace(namespace);
}
async function create(kind: string, name: string, spec: object): Promise<void> {
  await cluster.create({ apiVersion, kind, metadata: { name, namespace }, spec });
}
function sandboxes(matches: (sandbox: Sandbox) => boolean = () => true): Sandbox[] {
  const all = cluster.seen.sandboxes.store.list();
  return all.filter((one) => one.metadata.namespace === namespace && matches(one));
}
const isReady = ({ status }: Sandbox) => status?.phase === "Running";
const isClaimed = ({ metadata }: Sandbox) => metadata.labels?.[labels.sandboxClaimed] === "true";
const names = (all: Sandbox[]) => all.map(({ metadata }) => metadata.name).sort();

/** Resolves when the controllers can claim that many sandboxes. Until their own cache shows one, a claim would create another. */
async function stockedSet(replicas: number): Promise<void> {
  await create("SandboxSet", "set", { replicas, template });
  await expect.poll(() => sandboxes((one) => isReady(one) && !isClaimed(one)).length).toBe(replicas);
  await Promise.all(names(sandboxes()).map((name) => writeMarker(name, "2035-01-01T00:00:00Z")));
}
async function claim(name: string, spec: object): Promise<SandboxClaim> {
  await create("SandboxClaim", name, { templateName: "set", ...spec });
  return completed(name);
}
async function completed(name: string): Promise<SandboxClaim> {
  const find = () => cluster.seen.claims.store.get(at(name));
  await expect.poll(() => find()?.status?.phase, { interval: 10 }).toBe("Completed");
  return find()!;
}
const reasonOf = ({ status }: SandboxClaim, type = "Completed") =>
  status?.conditions?.find((one) => one.type === type)?.reason;

it("claims ready sandboxes with the requested fields, and refills the set", async () => {
  await inNewNamespace();
  await stockedSet(2);
  const before = names(sandboxes());
  const done = await claim("c", {
    replicas: 2,
    labels: { task: "7" },
    annotations: { note: "n" },
    envVars: { B: "2" },
    shutdownTime: "2036-01-01T00:00:00Z",
  });
  expect(done.status).toMatchObject({ phase: "Completed", claimedReplicas: 2, message: "2 of 2 claimed" });
  expect(reasonOf(done)).toBe("AllReplicasClaimed");
  expect(done.status?.ramet?.sandboxes?.toSorted()).toEqual(before);
  for (const name of before) {
    const sandbox = await cluster.sandbox(at(name), isClaimed);
    expect(sandbox.metadata.labels).toMatchObject({ task: "7", [labels.claimName]: "c" });
    expect(sandbox.metadata.annotations).toMatchObject({ note: "n", [annotations.owner]: done.metadata.uid });
    expect(sandbox.metadata.annotations).toHaveProperty([annotations.sealedInitRequest]);
    expect(sandbox.metadata.annotations).not.toHaveProperty([annotations.initRuntimeRequest]);
    expect(sandbox.spec.shutdownTime).toBe("2036-01-01T00:00:00Z");
    expect(node.cells.get(at(name))?.identity?.environment).toEqual(claimedEnvironment());
  }
  await expect.poll(() => sandboxes((one) => isReady(one) && !isClaimed(one)).length).toBe(2);
});

it("claims a ready sandbox with two writes", async () => {
  await inNewNamespace();
  await stockedSet(3);
  await claim("warm", {});
  await expect.poll(() => sandboxes((one) => isReady(one) && !isClaimed(one)).length).toBe(3);
  const stock = names(sandboxes());
  // A new sandbox replaces the claimed one in the set. Its writes are not counted.
  const writes = (): RequestRecord[] =>
    cluster
      .requests()
      .filter(({ verb }) => ["create", "patch", "update", "delete"].includes(verb))
      .filter(({ resource, name = "" }) => resource.plural === "sandboxclaims" || stock.includes(name));
  const before = new Set<string | undefined>();
  writes();
  await Promise.all(stock.map((name) => writeMarker(name, "2036-01-01T00:00:00Z")));
  await expect
    .poll(() => {
      for (const { name } of writes()) before.add(name);
      return before.size;
    })
    .toBe(stock.length);

  const statuses = followStatuses(cluster.seen.claims, "c", ({ status }) =>
    status === undefined || status.phase === "Completed" ? undefined : (status.message ?? ""),
  );
  await claim("c", {});
  const [claimed = ""] = cluster.seen.claims.store.get(at("c"))?.status?.ramet?.sandboxes ?? [];
  await writeMarker(claimed, "2037-01-01T00:00:00Z");
  await cluster.seen.claims.resource.mergePatch({ namespace, name: "c" }, { spec: { ttlAfterCompleted: "0s" } });
  const counted: string[] = [];
  const all = (): string[] => {
    counted.push(...writes().map(writeOf));
    return withoutNotices(counted.toSorted(), statuses, "patch sandboxclaims status");
  };
  const markers = ["delete sandboxclaims", "patch sandboxes status"];
  await expect.poll(all).toEqual([...markers, "patch sandboxclaims status", "patch sandboxes"].toSorted());
  statuses.stop();
  expect(statuses.notices().length).toBeLessThanOrEqual(2);
});

/**
 * Changes a sandbox's spec, so that its controller writes the status once. A key has one worker at a time, so all
 * work queued for the sandbox before is done when that write is visible, and the controllers' cache has all earlier changes.
 */
async function writeMarker(name: string, shutdownTime: string): Promise<void> {
  const { sandboxes } = cluster.seen;
  const { metadata } = await sandboxes.resource.mergePatch({ namespace, name }, { spec: { shutdownTime } });
  await cluster.sandbox(at(name), ({ status }) => status?.observedGeneration === metadata.generation);
}

it("creates sandboxes if none is ready, or waits for one if createOnNoStock is false", async () => {
  await inNewNamespace();
  await create("SandboxSet", "set", { replicas: 0, template });
  const cold = await claim("cold", { replicas: 2, envVars: { B: "2" }, labels: { task: "7" } });
  expect(cold.status).toMatchObject({ claimedReplicas: 2 });
  for (const name of cold.status?.ramet?.sandboxes ?? []) {
    expect(node.cells.get(at(name))?.identity?.environment).toEqual(claimedEnvironment());
    const pod = await cluster.pod(at(name), () => true);
    expect(pod.metadata.labels).toMatchObject({ task: "7" });
  }
  await create("SandboxClaim", "waits", { templateName: "set", createOnNoStock: false });
  await expect.poll(() => cluster.seen.claims.store.get(at("waits"))?.status?.phase).toBe("Claiming");
  await cluster.seen.sets.resource.mergePatch({ namespace, name: "set" }, { spec: { replicas: 1 } });
  expect(reasonOf(await completed("waits"))).toBe("AllReplicasClaimed");
});

it("completes a claim with the sandboxes that it has when claimTimeout expires", async () => {
  await inNewNamespace();
  await stockedSet(1);
  await cluster.seen.sets.resource.mergePatch({ namespace, name: "set" }, { spec: { replicas: 0 } });
  await create("SandboxSet", "other", { replicas: 0, template });
  const none = await claim("none", { templateName: "other", createOnNoStock: false, claimTimeout: "1s" });
  expect(none.status).toMatchObject({ claimedReplicas: 0 });
  expect([reasonOf(none), reasonOf(none, "TimedOut")]).toEqual(["TimeoutReached", "ClaimTimeoutReached"]);
  expect(none.status?.message).toBe(
    "0 of 1 claimed: timed out after 1s (spec.claimTimeout); raise the replicas of the set other",
  );
});

it("keeps and reports the delivered sandboxes of a claim that times out, also if one is being resumed", async () => {
  await inNewNamespace();
  await stockedSet(2);
  node.ignored.add(namespace);
  await create("SandboxClaim", "some", { templateName: "set", replicas: 3, claimTimeout: "6s" });
  const delivered = () => cluster.seen.claims.store.get(at("some"))?.status?.ramet?.sandboxes ?? [];
  await expect.poll(() => delivered().length, { interval: 10 }).toBe(2);
  const [resuming = ""] = delivered();
  const { resource } = cluster.seen.sandboxes;
  await resource.mergePatch({ namespace, name: resuming }, { spec: { paused: true } });
  await cluster.sandbox(at(resuming), ({ status }) => status?.phase === "Paused");
  await resource.mergePatch({ namespace, name: resuming }, { spec: { paused: false } });
  await cluster.sandbox(at(resuming), ({ status }) => status?.phase === "Resuming");
  const done = await completed("some");
  expect(reasonOf(done)).toBe("TimeoutReached");
  expect(done.status).toMatchObject({ claimedReplicas: 2 });
  const isKept = (one: Sandbox) => isClaimed(one) && one.metadata.deletionTimestamp === undefined;
  await expect.poll(() => names(sandboxes(isKept))).toEqual([...delivered()].sort());
  expect(delivered()).toContain(resuming);
});

it("completes a claim with the cause if the set does not exist, a field is unsupported or a label is reserved", async () => {
  await inNewNamespace();
  const missing = await claim("missing", { templateName: "nowhere" });
  expect(reasonOf(missing)).toBe("SandboxSetNotFound");
  expect(missing.status?.message).toContain(`the SandboxSet nowhere does not exist in the namespace ${namespace}`);
  const other = await claim("inplace", { inplaceUpdate: { image: "other" } });
  expect(reasonOf(other)).toBe("InvalidArgument");
  expect(other.status?.message).toMatch(
    /^0 of 1 claimed: spec\.inplaceUpdate\.image is not supported: .* Create a SandboxSet with the image other, .*\[InvalidArgument\]$/,
  );
  await stockedSet(1);
  const none = await claim("no-request", { inplaceUpdate: { resources: {} }, dynamicVolumesMount: [] });
  expect(reasonOf(none)).toBe("AllReplicasClaimed");
  const reserved = await claim("reserved", { labels: { [labels.sandboxPool]: "x" } });
  expect(reserved.status?.message).toContain("is reserved");
});

it("replaces a sandbox that rejects the environment, and keeps it if reserveFailedSandbox is true", async () => {
  await inNewNamespace();
  await stockedSet(1);
  const [first] = sandboxes();
  const bad = first!.metadata.name;
  node.cells.get(at(bad))!.behaviour.adoptError = new RametError("HandoverFailed", "the guest rejected the identity");
  const done = await claim("c", { envVars: { B: "2" }, reserveFailedSandbox: true });
  expect(done.status?.claimedReplicas).toBe(1);
  expect(done.status?.ramet?.sandboxes).not.toContain(bad);
  const kept = await cluster.sandbox(
    at(bad),
    ({ metadata }) => metadata.labels?.[labels.reservedFailedSandbox] === "true",
  );
  expect(kept.metadata.deletionTimestamp).toBeUndefined();
});

it("continues a claim after the controller restarts at any step, and never claims too many sandboxes", async () => {
  await inNewNamespace();
  await stockedSet(6);
  for (const [round, claimed] of [0, 1, 2, 4, 5].entries()) {
    await expect.poll(() => sandboxes((one) => isReady(one) && !isClaimed(one)).length).toBe(6);
    const name = `c${round}`;
    await create("SandboxClaim", name, { templateName: "set", replicas: 5, envVars: { ROUND: `${round}` } });
    const own = () => names(sandboxes(({ metadata }) => metadata.labels?.[labels.claimName] === name));
    await expect.poll(() => own().length, { interval: 1 }).toBeGreaterThanOrEqual(claimed);
    await cluster.restartControllers();
    const done = await completed(name);
    expect(done.status?.claimedReplicas).toBe(5);
    // Claims and sandboxes have separate watches.
    await expect.poll(own).toEqual(done.status?.ramet?.sandboxes?.toSorted());
  }
});

it("waits for slow starts while controllers restart, and creates no sandbox twice", async () => {
  await inNewNamespace();
  await create("SandboxSet", "set", { replicas: 0, template });
  node.ignored.add(namespace);
  const claims = ["a", "b", "c", "d"];
  const status = (name: string) => cluster.seen.claims.store.get(at(name))?.status;
  for (const name of claims) {
    await create("SandboxClaim", name, { templateName: "set", waitReadyTimeout: "1s", claimTimeout: "5m" });
  }
  await expect.poll(() => sandboxes().length).toBe(claims.length);
  await cluster.restartControllers();
  const isSlow = (name: string) => status(name)?.message?.includes("after 1 s (spec.waitReadyTimeout)") === true;
  await expect.poll(() => claims.filter(isSlow)).toEqual(claims);
  const created = names(sandboxes());
  await cluster.restartControllers();
  await node.release(cluster.client, namespace);
  for (const name of claims) expect(reasonOf(await completed(name))).toBe("AllReplicasClaimed");
  expect(claims.flatMap((name) => status(name)?.ramet?.sandboxes ?? []).sort()).toEqual(created);
  expect(names(sandboxes())).toEqual(created);
});

it("delivers every claim of a series while controllers restart", async () => {
  await inNewNamespace();
  await stockedSet(4);
  const claims = Array.from({ length: 20 }, (_, n) => `c${n}`);
  const restarted = cluster.restartControllers();
  for (const name of claims) await create("SandboxClaim", name, { templateName: "set", envVars: { B: "2" } });
  await restarted;
  const taken = await Promise.all(claims.map(completed));
  expect(taken.map((one) => reasonOf(one))).toEqual(claims.map(() => "AllReplicasClaimed"));
  expect(new Set(taken.flatMap(({ status }) => status?.ramet?.sandboxes ?? [])).size).toBe(claims.length);
  expect(sandboxes(isClaimed)).toHaveLength(claims.length);
});

it("takes a ready sandbox of the set for one that is slow", async () => {
  await inNewNamespace();
  await create("SandboxSet", "set", { replicas: 0, template });
  node.ignored.add(namespace);
  await create("SandboxClaim", "c", { templateName: "set", waitReadyTimeout: "1s", claimTimeout: "5m" });
  await expect.poll(() => sandboxes().length).toBe(1);
  const [slow = ""] = names(sandboxes());
  node.ignored.add(`${namespace}/${slow}`);
  node.ignored.delete(namespace);
  await cluster.seen.sets.resource.mergePatch({ namespace, name: "set" }, { spec: { replicas: 1 } });
  const done = await completed("c");
  expect(reasonOf(done)).toBe("AllReplicasClaimed");
  expect(done.status?.ramet?.sandboxes).not.toContain(slow);
  await cluster.untilDeleted("sandboxes", at(slow));
});

it("counts the time in which no controller ran", async () => {
  await inNewNamespace();
  await create("SandboxSet", "set", { replicas: 0, template });
  await cluster.stopControllers();
  await create("SandboxClaim", "c", { templateName: "set", createOnNoStock: false, claimTimeout: "3s" });
  const { creationTimestamp } = (await cluster.seen.claims.resource.get({ namespace, name: "c" })).metadata;
  const ageSeconds = (time: string | undefined) => (Date.parse(time ?? "") - Date.parse(creationTimestamp)) / 1000;
  await expect.poll(() => ageSeconds(new Date().toISOString())).toBeGreaterThan(5);
  await cluster.startControllers();
  const { status } = await completed("c");
  expect(reasonOf({ status } as SandboxClaim)).toBe("TimeoutReached");
  expect(ageSeconds(status?.claimStartTime)).toBeLessThan(3);
});

it("deletes a completed claim after ttlAfterCompleted, and keeps its sandboxes", async () => {
  await inNewNamespace();
  await stockedSet(1);
  await claim("c", { ttlAfterCompleted: "1s" });
  await cluster.untilDeleted("claims", at("c"));
  await expect.poll(() => sandboxes(isClaimed)).toHaveLength(1);
});

async function ramet(...args: string[]) {
  const io = memoryIo({ environment: { HOME: "/nowhere" } });
  const exitCode = await runProgram(io, ["claim", ...args, "-n", namespace, "--kubeconfig", cluster.kubeconfigPath]);
  return { exitCode, stdout: io.written("stdout"), stderr: io.written("stderr") };
}

it("prints the claimed sandboxes in ramet claim, and reports why it claimed fewer", async () => {
  await inNewNamespace();
  await stockedSet(2);
  const two = await ramet("set", "--count", "2", "--label", "task=7", "-e", "B=2");
  expect(two).toMatchObject({ exitCode: 0, stderr: "" });
  await expect
    .poll(() => names(sandboxes(({ metadata }) => metadata.labels?.["task"] === "7")))
    .toEqual(two.stdout.trim().split("\n").sort());
  await create("SandboxSet", "empty", { replicas: 0, template });
  const none = await ramet("empty", "--no-create", "--timeout", "1s", "--name", "none");
  expect(none).toMatchObject({ exitCode: 4, stdout: "" });
  expect(none.stderr).toContain("The claim none has 0 of 1 claimed: timed out after 1s");
  expect(await ramet("take", "nowhere", "--name", "nowhere")).toMatchObject({ exitCode: 3, stdout: "" });
  expect((await ramet("ls")).stdout).toMatch(/none +Completed +empty +0\/1/);
  expect(await ramet("set", "--count", "0")).toMatchObject({ exitCode: 2 });
  expect(await ramet("rm", "none")).toMatchObject({ exitCode: 0, stdout: "claim none removed\n" });
});

/** The variables of the template and of the claim, and those of E2B's clients. */
function claimedEnvironment() {
  return {
    A: "1",
    B: "2",
    E2B_SANDBOX: "true",
    E2B_SANDBOX_ID: expect.stringMatching(/^[0-9a-f]{32}$/) as unknown,
    E2B_TEAM_ID: namespace,
    E2B_TEMPLATE_ID: "set",
  };
}
