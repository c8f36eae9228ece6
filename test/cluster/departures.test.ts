import { afterAll, beforeAll, expect, it } from "vitest";
import type { Sandbox } from "../../src/api/kinds/sandbox.ts";
import { RametError } from "../../src/base/errors.ts";
import { annotations, labels } from "../../src/api/names/labels.ts";
import { unscheduledWords } from "../../src/controllers/cluster/pod-facts.ts";
import type { KubeObject } from "../../src/kube/object.ts";
import { namespacedRef } from "../../src/kube/resource-ref.ts";
import { startScheduler } from "../setup/scheduler.ts";
import { type Cluster, openCluster } from "./controllers-cluster.ts";
import { StandInNode } from "./controllers-stand-in-node.ts";
import { nodeObjects } from "./node-objects.ts";

/**
 * A real API server, the real scheduler and the real controllers. The nodes are objects, and their cells are stand-ins: this does not
 * prove that memory survives a move (disruption.test.ts does).
 */
const node = new StandInNode({
  buildOn: () => ({
    version: "stand-in",
    architecture: "amd64",
    guest: `sha256:${"0".repeat(64)}`,
    cpuFeatures: ["sse2"],
  }),
});
let cluster: Cluster;
let stopScheduler: () => Promise<void>;
const nodes = nodeObjects(() => cluster.client);

beforeAll(async () => {
  cluster = await openCluster({ startNode: node.start, allApis: true });
  stopScheduler = await startScheduler(cluster.kubeconfigPath);
  await cluster.namespace("t");
  await nodes.add("a");
}, 300_000);
afterAll(async () => {
  await stopScheduler();
  await cluster.close();
});

const apiVersion = "agents.kruise.io/v1alpha1";
const spec = {
  terminationGracePeriodSeconds: 1,
  containers: [{ name: "main", image: "python", command: ["sleep", "1"] }],
};
async function create(name: string, { policy, more = {} }: { policy?: string; more?: object } = {}): Promise<Sandbox> {
  const metadata = policy === undefined ? {} : { annotations: { [annotations.onDisruption]: policy } };
  const template = { metadata, spec: { ...spec, ...more } };
  await cluster.create({ apiVersion, kind: "Sandbox", metadata: { name, namespace: "t" }, spec: { template } });
  return cluster.sandbox(`t/${name}`, ({ status }) => status?.phase === "Running");
}
const preferring = (nodeName: string) => {
  const preference = { matchExpressions: [{ key: "kubernetes.io/hostname", operator: "In", values: [nodeName] }] };
  return [{ weight: 100, preference }];
};
const on = (name: string, nodeName: string) =>
  cluster.sandbox(`t/${name}`, ({ status }) => status?.phase === "Running" && status.nodeName === nodeName);
/** The stand-in does not hold the end of a Pod, so this says only that it will come. */
async function announceEviction(name: string): Promise<void> {
  const target = { type: "DisruptionTarget", status: "True", reason: "EvictionByEvictionAPI", message: "" };
  const conditions = [{ ...target, lastTransitionTime: new Date().toISOString() }];
  const { resource } = cluster.seen.pods;
  await resource.mergePatch({ namespace: "t", name }, { status: { conditions } }, { subresource: "status" });
}
const noTargetOf = ({ status }: Sandbox) => status?.ramet?.noTarget;
const disruptionOf = ({ status }: Sandbox) => status?.ramet?.disruption;

it("says that no other node takes a sandbox, and takes that back when its node stays", async () => {
  await create("only");
  await nodes.cordon("a", true);
  const stuck = await cluster.sandbox("t/only", (one) => noTargetOf(one) !== undefined);
  expect(stuck.status).toMatchObject({ phase: "Running", nodeName: "a" });
  expect(noTargetOf(stuck)).toMatchObject({ cause: "NodeCordoned", message: "No other node exists" });
  await nodes.cordon("a", false);
  const { status } = await cluster.sandbox("t/only", (one) => noTargetOf(one) === undefined);
  expect(status).toMatchObject({ phase: "Running", nodeName: "a" });
});

it("stops the copy on a node that was partitioned while its Pod was removed, by whichever controllers reach it first", async () => {
  const { metadata, status: before } = await create("lost");
  const [name, own] = ["lost", { apiVersion, kind: "Sandbox", name: "lost", uid: metadata.uid, controller: true }];
  await cluster.create({
    apiVersion,
    kind: "Checkpoint",
    metadata: { name, namespace: "t", labels: { [labels.purpose]: "automatic" }, ownerReferences: [own] },
    spec: { sandboxName: name },
  });
  await cluster.checkpoint("t/lost", ({ status }) => status?.phase === "Succeeded");
  const old = node.cells.get("t/lost");
  if (old === undefined) throw new Error("the Pod has no cell");
  old.onStop = () => undefined;
  await old.close();
  await cluster.stopControllers();
  // As Kubernetes' PodGC does it.
  const target = { type: "DisruptionTarget", status: "True", reason: "DeletionByPodGC", message: "" };
  const ended = { phase: "Failed", conditions: [{ ...target, lastTransitionTime: new Date().toISOString() }] };
  const at = { namespace: "t", name };
  await cluster.seen.pods.resource.mergePatch(at, { status: ended }, { subresource: "status" });
  await cluster.startControllers();
  const lost = await cluster.sandbox("t/lost", (one) => disruptionOf(one)?.outcome === "Restoring");
  const { podUID } = before?.podInfo ?? {};
  expect(disruptionOf(lost)).toMatchObject({ cause: "NodeLost", podUID });
  await cluster.seen.pods.resource.delete(at, { gracePeriodSeconds: 0 }).catch(() => undefined);
  const next = await cluster.sandbox("t/lost", (one) => disruptionOf(one)?.outcome === "Restored");
  expect(next.status?.ramet?.removedPods).toMatchObject([{ podUID, cellKey: before?.ramet?.cellKey }]);

  await cluster.restartControllers();
  await old.listen();
  const { status } = await cluster.sandbox("t/lost", (one) => one.status?.ramet?.removedPods === undefined);
  expect(old.state.phase).toBe("stopped");
  expect(status).toMatchObject({ phase: "Running", podInfo: next.status?.podInfo });
  expect(node.cells.get("t/lost")?.state.phase).toBe("running");
});

it("stops the copy on a partitioned node whose controllers died as its start began, when its Pod was removed by force", async () => {
  const { resource } = cluster.seen.pods;
  const [name, at] = ["clone", { namespace: "t", name: "clone" }];
  const { status: source } = await cluster.checkpoint("t/lost", ({ status }) => status?.phase === "Succeeded");
  const response = Promise.withResolvers<undefined>();
  node.behaviours.set("t/clone", { restoreResponseGate: response.promise });
  const metadata = { ...at, annotations: { "ramet.dev/restore-from": source?.checkpointId ?? "" } };
  await cluster.create({ apiVersion, kind: "Sandbox", metadata, spec: { template: { spec } } });
  await expect.poll(() => node.cells.get("t/clone")?.calls, { timeout: 60_000, interval: 5 }).toEqual(["restore"]);
  await cluster.stopControllers();
  const podUID = cluster.seen.pods.store.get("t/clone")?.metadata.uid;
  const old = node.cells.get("t/clone");
  if (old === undefined) throw new Error("the Pod has no cell");
  old.onStop = () => undefined;
  node.behaviours.delete("t/clone");
  await old.close();
  await resource.delete(at, { gracePeriodSeconds: 0 });
  await cluster.startControllers();
  const next = await cluster.sandbox(`t/${name}`, (one) => one.status?.phase === "Running");
  expect(next.status?.podInfo?.podUID).not.toBe(podUID);
  expect(next.status?.ramet?.removedPods).toMatchObject([{ podUID }]);
  expect(old.state.phase).toBe("running");
  response.resolve(undefined);
  await old.listen();
  await cluster.sandbox("t/clone", (one) => one.status?.ramet?.removedPods === undefined);
  expect([old.state.phase, node.cells.get("t/clone")?.state.phase]).toEqual(["stopped", "running"]);
});

it("captures sandboxes whose Pods are evicted together, at most four of a node at the same time", async () => {
  const names = Array.from({ length: 7 }, (_, at) => `evicted-${at}`);
  const gates = new Map<string, () => void>();
  for (const name of names) {
    const gate = Promise.withResolvers<undefined>();
    gates.set(name, () => {
      gate.resolve(undefined);
    });
    node.behaviours.set(`t/${name}`, { captureGate: gate.promise });
    await create(name);
  }
  const cells = new Map(names.map((name) => [name, node.cells.get(`t/${name}`)]));
  const capturing = () => names.filter((name) => cells.get(name)?.state.checkpointing !== undefined);
  await Promise.all(names.map(announceEviction));
  const pending = () =>
    cluster.seen.checkpoints.store.list().filter(({ metadata }) => metadata.name.startsWith("evicted-")).length;
  await expect.poll(() => [pending(), capturing().length], { timeout: 60_000 }).toEqual([7, 4]);
  const order: string[] = [];
  while (order.length < names.length) {
    await expect.poll(() => capturing().length, { timeout: 60_000 }).toBe(Math.min(4, names.length - order.length));
    const [first = ""] = capturing();
    order.push(first);
    gates.get(first)?.();
    await expect.poll(() => cells.get(first)?.state.checkpointing, { timeout: 60_000 }).toBeUndefined();
    expect(capturing().length).toBeLessThanOrEqual(4);
  }
  for (const name of names) {
    const moved = await cluster.sandbox(`t/${name}`, (one) => disruptionOf(one)?.outcome === "Migrated");
    expect(disruptionOf(moved)).toMatchObject({ cause: "Evicted" });
    await cluster.seen.sandboxes.resource.delete({ namespace: "t", name });
  }
});

it("pauses an evicted sandbox immediately if all other nodes have another architecture, and continues it when its own stays", async () => {
  const nodeSelector = { "kubernetes.io/arch": "arm64" };
  await nodes.add("arm", { labels: nodeSelector });
  // Only Pods that tolerate it notice when this node stays.
  await nodes.taint("arm", "dedicated");
  await create("arm", { more: { nodeSelector, tolerations: [{ key: "dedicated", operator: "Exists" }] } });
  await nodes.cordon("arm", true);
  await announceEviction("arm");
  const { status } = await cluster.sandbox("t/arm", (one) => noTargetOf(one)?.retryAt !== undefined);
  expect(status).toMatchObject({ phase: "Paused", ramet: { disruption: { cause: "Evicted", outcome: "Migrating" } } });
  expect(status?.message).toContain("Of 2 nodes, 1 do not accept its Pod, 1 have another architecture");
  await nodes.cordon("arm", false);
  await cluster.sandbox("t/arm", (one) => disruptionOf(one)?.outcome === "Migrated");
  await cluster.seen.sandboxes.resource.delete({ namespace: "t", name: "arm" });
  await nodes.remove("arm");
});

it("moves the sandboxes of a cordoned node to another one, at most four at the same time", async () => {
  const names = Array.from({ length: 12 }, (_, at) => `s${at}`);
  const before = new Map<string, Sandbox>();
  for (const name of names) before.set(name, await create(name));
  await create("pinned", { more: { nodeSelector: { "kubernetes.io/hostname": "a" } } });
  await create("paused-later", { policy: "Pause" });
  await create("ends", { policy: "End" });
  await nodes.add("b");
  let most = 0;
  const stop = cluster.seen.sandboxes.store.subscribe(() => {
    const all = cluster.seen.sandboxes.store.list();
    most = Math.max(most, all.filter((one) => disruptionOf(one)?.outcome === "Migrating").length);
  });
  await nodes.cordon("a", true);
  for (const name of names) {
    const after = await on(name, "b");
    expect(after.metadata.uid).toBe(before.get(name)?.metadata.uid);
    expect(disruptionOf(after)).toMatchObject({ cause: "NodeCordoned", outcome: "Migrated" });
  }
  stop();
  expect(most).toBeGreaterThan(0);
  expect(most).toBeLessThanOrEqual(4);
  const pinned = await cluster.sandbox("t/pinned", (one) => noTargetOf(one) !== undefined);
  expect(pinned.status).toMatchObject({ phase: "Running", nodeName: "a" });
  expect(noTargetOf(pinned)?.message).toBe(
    "Of 2 nodes, 1 do not accept its Pod, 1 do not have the labels that it needs",
  );
  for (const name of ["paused-later", "ends"]) expect(disruptionOf(await on(name, "a"))).toBeUndefined();
});

it("leaves a sandbox running that cannot be moved because the store is full, and says when that is tried again", async () => {
  await nodes.cordon("a", false);
  node.behaviours.set("t/unsaved", { captureError: new RametError("StoreFull", "the store is full") });
  const affinity = { nodeAffinity: { preferredDuringSchedulingIgnoredDuringExecution: preferring("a") } };
  await create("unsaved", { more: { affinity } });
  await on("unsaved", "a");
  await nodes.cordon("a", true);
  const { status } = await cluster.sandbox("t/unsaved", (one) => disruptionOf(one)?.outcome === "Withdrawn");
  const problem = { code: "StoreFull", retryAt: expect.any(String) as string };
  expect(status).toMatchObject({ phase: "Running", nodeName: "a", ramet: { disruption: { failures: 1, problem } } });
  expect(node.cells.get("t/unsaved")?.state.phase).toBe("running");
  await cluster.seen.sandboxes.resource.delete({ namespace: "t", name: "unsaved" });
});

it("pauses sandboxes with the policy Pause when their node is about to be deleted", async () => {
  await nodes.taint("a", "ToBeDeletedByClusterAutoscaler");
  const { status, spec: own } = await cluster.sandbox("t/paused-later", (one) => one.status?.phase === "Paused");
  expect(own.paused).toBe(true);
  expect(status?.ramet?.disruption).toMatchObject({ cause: "NodeLeaving", outcome: "Paused" });
  expect((await on("ends", "a")).status?.ramet).not.toHaveProperty("disruption");
});

it("continues a move that has begun although the controllers are killed and the mark is withdrawn", async () => {
  await create("new");
  await on("new", "b");
  await nodes.taint("a");
  await nodes.cordon("a", false);
  await nodes.cordon("b", true);
  await cluster.sandbox("t/new", (one) => disruptionOf(one)?.outcome === "Migrating");
  await cluster.stopControllers();
  await nodes.cordon("b", false);
  await cluster.startControllers();
  const moved = await cluster.sandbox("t/new", (one) => disruptionOf(one)?.outcome === "Migrated");
  expect(moved.status?.phase).toBe("Running");
});

it("fills a set on another node before it removes its sandboxes from one that leaves", async () => {
  await nodes.cordon("a", true);
  await cluster.create({
    apiVersion,
    kind: "SandboxSet",
    metadata: { name: "pool", namespace: "t" },
    spec: { replicas: 3, template: { spec } },
  });
  const ready = () => cluster.seen.sets.store.get("t/pool")?.status?.availableReplicas;
  const members = () =>
    cluster.seen.sandboxes.store.list().filter(({ metadata }) => metadata.ownerReferences?.[0]?.kind === "SandboxSet");
  await expect.poll(ready, { timeout: 60_000 }).toBe(3);
  let least = 3;
  const stop = cluster.seen.sets.store.subscribe(() => (least = Math.min(least, ready() ?? 0)));
  await nodes.taint("b", "karpenter.sh/disrupted");
  // While no node takes others, a drain of this one waits.
  const budgets = cluster.client.resource(
    namespacedRef("policy/v1", "PodDisruptionBudget"),
    (value) => value as Budget,
  );
  const found = async () => (await budgets.list({ namespace: "t" })).items.map(({ spec }) => spec.minAvailable);
  await expect.poll(found, { timeout: 60_000 }).toEqual([3]);
  const there = members().filter(({ status }) => status?.nodeName === "b");
  const evictions = there.map(({ metadata: { name } }) => {
    const metadata = { name, namespace: "t" };
    const eviction = { apiVersion: "policy/v1", kind: "Eviction", metadata };
    return cluster.seen.pods.resource.postSubresource(metadata, "eviction", eviction, {
      signal: AbortSignal.timeout(1_000),
    });
  });
  expect((await Promise.allSettled(evictions)).map(({ status }) => status)).toEqual([
    "rejected",
    "rejected",
    "rejected",
  ]);
  await nodes.cordon("a", false);
  await expect
    .poll(() => members().map(({ status, metadata }) => metadata.deletionTimestamp ?? status?.nodeName), {
      timeout: 60_000,
    })
    .toEqual(["a", "a", "a"]);
  stop();
  expect(least).toBe(3);
  await expect.poll(found, { timeout: 60_000 }).toEqual([]);
});

it("rolls a set to another template while its node is drained", async () => {
  const members = () =>
    cluster.seen.sandboxes.store.list().filter(({ metadata }) => metadata.labels?.[labels.sandboxPool] === "pool");
  const ready = () => cluster.seen.sets.store.get("t/pool")?.status?.availableReplicas ?? 0;
  let least = 3;
  const stop = cluster.seen.sets.store.subscribe(() => (least = Math.min(least, ready())));
  await nodes.taint("b");
  const template = { spec: { ...spec, containers: [{ ...spec.containers[0], command: ["sleep", "2"] }] } };
  await Promise.all([
    nodes.cordon("a", true),
    cluster.seen.sets.resource.mergePatch({ namespace: "t", name: "pool" }, { spec: { template } }),
  ]);
  await expect
    .poll(
      () =>
        members().map(({ metadata, status, spec: own }) => [
          metadata.deletionTimestamp ?? status?.nodeName,
          status?.phase,
          JSON.stringify(own.template).includes('["sleep","2"]'),
        ]),
      { timeout: 60_000 },
    )
    .toEqual(Array.from({ length: 3 }, () => ["b", "Running", true]));
  stop();
  expect(least).toBeGreaterThanOrEqual(2);
  await cluster.seen.sets.resource.delete({ namespace: "t", name: "pool" });
});
type Budget = KubeObject & { spec: { minAvailable: number } };

it("moves a sandbox once from a node whose taint it tolerates for some time, and not back to it", async () => {
  await nodes.taint("b");
  await nodes.cordon("b", true);
  await nodes.cordon("a", false);
  const key = "team/drain";
  const tolerations = [{ key, operator: "Exists", effect: "NoExecute", tolerationSeconds: 3_600 }];
  // The scheduler prefers the node that it is to leave.
  const affinity = { nodeAffinity: { preferredDuringSchedulingIgnoredDuringExecution: preferring("a") } };
  await create("tolerant", { more: { tolerations, affinity } });
  await on("tolerant", "a");
  await nodes.evict("a", key);
  await cluster.sandbox("t/tolerant", (one) => noTargetOf(one) !== undefined);
  await nodes.cordon("b", false);
  const moved = await on("tolerant", "b");
  expect(disruptionOf(moved)).toMatchObject({ cause: "NodeTaint", outcome: "Migrated", nodeName: "a" });
  await nodes.taint("a");

  // The node that its next Pod avoids stays after all, and no other one takes it.
  await nodes.cordon("a", true);
  await nodes.evict("b", key);
  await announceEviction("tolerant");
  const { metadata } = await cluster.pod("t/tolerant", (pod) => unscheduledWords(pod) !== undefined);
  await nodes.taint("b");
  const back = await on("tolerant", "b");
  expect([moved.status?.podInfo?.podUID, metadata.uid]).not.toContain(back.status?.podInfo?.podUID);
  await nodes.cordon("a", false);
});

it("does not move a sandbox to a node that Pods of others fill", async () => {
  const requesting = (memory: string) => [{ ...spec.containers[0], resources: { requests: { memory } } }];
  await cluster.create({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "full", namespace: "t" },
    spec: { nodeName: "b", containers: requesting("63Gi") },
  });
  await create("large", { more: { containers: requesting("4Gi") } });
  await on("large", "a");
  // What others request is known for half a minute, and the tests before were shorter.
  await cluster.restartControllers();
  await nodes.cordon("a", true);
  const stuck = await cluster.sandbox("t/large", (one) => noTargetOf(one) !== undefined);
  expect(noTargetOf(stuck)?.message).toContain("1 have too little CPU, memory or devices left");
});

it("captures the sandboxes of a node that shuts down, also if no other node takes them", async () => {
  await nodes.cordon("a", false);
  await on("large", "a");
  await nodes.shutDown("a");
  const captured = await cluster.sandbox("t/large", (one) => one.status?.phase === "Resuming");
  expect(disruptionOf(captured)).toMatchObject({ cause: "NodeShutdown", outcome: "Migrating", nodeName: "a" });
});
