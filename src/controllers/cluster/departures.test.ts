import { describe, expect, it } from "vitest";
import { ManualClock } from "../../../test/setup/manual-clock.ts";
import { Sandbox } from "../../api/kinds/sandbox.ts";
import { annotations } from "../../api/names/labels.ts";
import { Pod } from "../../api/schema/pod.ts";
import { Toleration } from "../../api/state/node.ts";
import { type Amounts, NodeTerm } from "../../api/state/target.ts";
import type { KubeObject } from "../../kube/object.ts";
import { ObjectStore } from "../../kube/store.ts";
import { Node } from "../nodes/nodes.ts";
import { Departures } from "./departures.ts";
import type { Informers } from "./resources.ts";

const start = new Date("2030-01-01T00:00:00Z");
let version = 0;
const metadata = (name: string, more: object = {}) => ({
  name,
  namespace: "t",
  uid: `uid-${name}`,
  resourceVersion: `${++version}`,
  creationTimestamp: start.toISOString(),
  ...more,
});
const node = (name: string, spec: object = {}): Node =>
  Node.parse({
    metadata: { name, uid: name, resourceVersion: `${++version}` },
    spec,
    status: {
      conditions: [{ type: "Ready", status: "True" }],
      allocatable: { cpu: "4", memory: "8Gi", pods: "10" },
    },
  });
const pod = (name: string, { memory = "1Gi", policy = "Migrate", more = {}, status = {} } = {}): Pod =>
  Pod.parse({
    metadata: metadata(name, { uid: `pod-${name}`, annotations: { [annotations.onDisruption]: policy } }),
    spec: { nodeName: "old", containers: [{ name: "main", image: "i", resources: { requests: { memory } } }], ...more },
    status: { phase: "Running", ...status },
  });
const sandbox = (name: string, shape: Shape = {}): Sandbox => {
  const { phase = "Running", disruption, owner = "", spec = {}, startingPod, resumedAt } = shape;
  const ownerReferences =
    owner === ""
      ? []
      : [{ apiVersion: "agents.kruise.io/v1alpha1", kind: owner, name: "o", uid: "o", controller: true }];
  return Sandbox.parse({
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "Sandbox",
    metadata: metadata(name, { ownerReferences }),
    spec,
    status: {
      phase,
      podInfo: { podUID: `pod-${name}`, nodeName: "old" },
      ramet: { disruption, startingPod },
      ...(resumedAt && {
        conditions: [
          { type: "SandboxResumed", status: "False", reason: "CreatePod", message: "", lastTransitionTime: resumedAt },
        ],
      }),
    },
  });
};
interface Shape {
  phase?: string;
  disruption?: object;
  owner?: string;
  spec?: object;
  startingPod?: object;
  resumedAt?: string;
}
const zone = { key: "zone", operator: "In", values: ["a"] };
const underWay = { cause: "NodeCordoned", at: start.toISOString(), outcome: "Migrating" };

function world(atOnce?: number) {
  const clock = new ManualClock(start);
  const store = <T extends KubeObject>() =>
    new ObjectStore<T>((error) => {
      throw error;
    });
  const [nodes, pods, sandboxes] = [store<Node>(), store<Pod>(), store<Sandbox>()];
  nodes.put(node("old"));
  nodes.put(node("new"));
  let [compared, reads, isRefused] = [0, 0, false];
  const others = new Map<string, Amounts>();
  const asked: string[] = [];
  const departures = new Departures({
    termsOfVolumes: () => Promise.resolve([[NodeTerm.parse({ matchExpressions: [zone] })]]),
    requestsOfOthers: () => {
      reads += 1;
      return Promise.resolve(isRefused ? undefined : new Map(others));
    },
    nodes: { store: nodes },
    informers: { pods: { store: pods }, sandboxes: { store: sandboxes } } as unknown as Informers,
    nodeCpus: {
      covers: (from) => {
        asked.push(from.metadata.name);
        compared += 1;
        return undefined;
      },
    },
    clock,
    ...(atOnce !== undefined && { atOnce }),
  });
  const changed: string[] = [];
  departures.onChange((keys) => changed.push(...keys));
  const run = (name: string, shape: Shape = {}, fields: Parameters<typeof pod>[1] = {}) => {
    pods.put(pod(name, fields));
    sandboxes.put(sandbox(name, shape));
  };
  /** What a reconcile reads now. */
  const read = (name: string) => departures.of(sandboxes.get(`t/${name}`) ?? sandbox(name), pods.get(`t/${name}`));
  /** And when the last change counts. */
  const of = (name: string) => {
    clock.advance(1_000);
    return read(name);
  };
  return {
    clock,
    nodes,
    pods,
    sandboxes,
    departures,
    changed,
    asked,
    run,
    of,
    read,
    others,
    refuse: (refused: boolean) => (isRefused = refused),
    reads: () => reads,
    compared: () => compared,
  };
}

it("announces the sandboxes of a node that leaves, and that they stay after all", async () => {
  const { clock, nodes, changed, run, of } = world();
  run("a");
  clock.advance(1_000);
  expect(changed).toEqual([]);
  expect(await of("a")).toBeUndefined();
  nodes.put(node("old", { unschedulable: true }));
  expect(await of("a")).toEqual({ turn: "now", cause: "NodeCordoned", mark: "it is cordoned" });
  clock.advance(1_000);
  expect(new Set(changed.splice(0))).toEqual(new Set(["t/a"]));
  nodes.put(node("old"));
  clock.advance(1_000);
  expect(changed).toEqual(["t/a"]);
  expect(await of("a")).toBeUndefined();
});

it("leaves alone what is not to move ahead", async () => {
  const { nodes, run, of } = world();
  run("ends", {}, { policy: "End" });
  run("pauses", {}, { policy: "Pause" });
  run("spare", { owner: "SandboxSet" });
  run("build", { owner: "NamedSnapshot" });
  run("starting", { phase: "Pending" });
  run("pausing", { spec: { paused: true } });
  run("tolerant", {}, { more: { tolerations: [{ operator: "Exists" }] } });
  run("moves");
  nodes.put(node("old", { unschedulable: true }));
  for (const name of ["ends", "pauses", "spare", "build", "starting", "pausing", "tolerant"])
    expect(await of(name)).toBeUndefined();
  expect(await of("moves")).toMatchObject({ turn: "now" });
  nodes.put(node("old", { taints: [{ key: "ToBeDeletedByClusterAutoscaler", effect: "NoSchedule" }] }));
  expect(await of("pauses")).toMatchObject({ turn: "now", cause: "NodeLeaving" });
});

it("moves nothing ahead if none may move at the same time", async () => {
  const { nodes, pods, departures, run, of } = world(0);
  run("a");
  nodes.put(node("old", { unschedulable: true }));
  expect(await of("a")).toBeUndefined();
  expect(departures.leaves(pods.get("t/a"))).toEqual({ leaving: false });
});

it("counts moves under way for five minutes, and a turn that is not taken for half a minute", async () => {
  const { clock, nodes, sandboxes, run, of } = world(1);
  run("a");
  run("b");
  run("c");
  nodes.put(node("old", { unschedulable: true }));
  expect((await Promise.all(["a", "b"].map(of))).map((one) => one?.turn)).toEqual(["now", "later"]);
  // Nothing begins to capture it.
  clock.advance(31_000);
  expect((await Promise.all(["a", "b"].map(of))).map((one) => one?.turn)).toEqual(["now", "now"]);
  sandboxes.put(sandbox("b", { disruption: underWay }));
  expect((await of("c"))?.turn).toBe("later");
  clock.advance(300_000);
  expect((await of("c"))?.turn).toBe("now");
});

it("waits a minute after a capture that has failed", async () => {
  const { clock, nodes, run, of } = world();
  run("a", { disruption: { ...underWay, outcome: "Withdrawn", podUID: "pod-a", endedAt: start.toISOString() } });
  nodes.put(node("old", { unschedulable: true }));
  expect(await of("a")).toMatchObject({ turn: "later" });
  clock.advance(61_000);
  expect(await of("a")).toMatchObject({ turn: "now" });
});

it("does not wait for an earlier move, or for the repetition of a capture for another cause, if seconds count", async () => {
  const { nodes, run, of } = world();
  const problem = { code: "StoreUnavailable", cause: "the store is away", retryAt: "2030-01-01T00:04:00Z" };
  const failed = { ...underWay, outcome: "Withdrawn", podUID: "pod-a", endedAt: start.toISOString(), problem };
  run("a", { disruption: failed });
  run("b", { disruption: { ...underWay, outcome: "Migrated", podUID: "earlier", endedAt: start.toISOString() } });
  nodes.put(node("old", { taints: [{ key: "aws-node-termination-handler/spot-itn", effect: "NoSchedule" }] }));
  for (const name of ["a", "b"]) expect(await of(name)).toMatchObject({ turn: "now", cause: "NodeReclaimed" });
  run("a", { disruption: { ...failed, cause: "NodeReclaimed" } });
  expect(await of("a")).toMatchObject({ turn: "later" });
});

it("gives the turn of a sandbox whose capture is repeated later to the next one", async () => {
  const { clock, nodes, run, of } = world(1);
  const problem = { code: "Unavailable", cause: "the store is full", retryAt: "2030-01-01T00:04:00Z" };
  const disruption = { ...underWay, outcome: "Withdrawn", podUID: "pod-a", endedAt: start.toISOString(), problem };
  run("a", { disruption });
  run("b");
  nodes.put(node("old", { unschedulable: true }));
  clock.advance(61_000);
  expect((await Promise.all(["a", "b"].map(of))).map((one) => one?.turn)).toEqual(["later", "now"]);
  clock.advance(180_000);
  expect(await of("a")).toMatchObject({ turn: "now" });
});

it("counts what other sandboxes request on a target, and names what is missing", async () => {
  const { nodes, pods, run, of } = world();
  run("a", {}, { memory: "3Gi" });
  const used = pod("used", { memory: "6Gi" });
  pods.put({ ...used, spec: { ...used.spec, nodeName: "new" } });
  nodes.put(node("old", { unschedulable: true }));
  expect(await of("a")).toMatchObject({
    turn: "noTarget",
    message: expect.stringContaining("too little CPU") as string,
  });
  pods.remove(used, true);
  expect(await of("a")).toMatchObject({ turn: "now" });
});

it("counts what Pods of others request on a target, and reads that at most twice a minute", async () => {
  const { clock, nodes, others, reads, run, of } = world();
  run("a", {}, { memory: "3Gi" });
  await of("a");
  expect(reads()).toBe(0);
  others.set("new", { memory: 6 * 2 ** 30 });
  nodes.put(node("old", { unschedulable: true }));
  for (let seconds = 0; seconds < 20; seconds++)
    expect(await of("a")).toMatchObject({
      turn: "noTarget",
      message: expect.stringContaining("too little CPU") as string,
    });
  expect(reads()).toBe(1);
  others.clear();
  clock.advance(30_000);
  expect(await of("a")).toMatchObject({ turn: "now" });
  expect(reads()).toBe(2);
});

it("moves nothing before it is known what Pods of others request, and then keeps what is known", async () => {
  const { clock, nodes, others, refuse, run, of } = world();
  run("a", {}, { memory: "3Gi" });
  nodes.put(node("old", { unschedulable: true }));
  refuse(true);
  expect(await of("a")).toMatchObject({ turn: "later" });
  refuse(false);
  others.set("new", { memory: 6 * 2 ** 30 });
  clock.advance(30_000);
  expect(await of("a")).toMatchObject({ turn: "noTarget" });
  refuse(true);
  clock.advance(30_000);
  expect(await of("a")).toMatchObject({ turn: "noTarget" });
});

it("captures what needs no other node although nobody knows what Pods of others request", async () => {
  const { nodes, refuse, run, of, reads } = world();
  run("a", {}, { more: { volumes: [{ name: "data", persistentVolumeClaim: { claimName: "data" } }] } });
  run("paused", {}, { policy: "Pause" });
  refuse(true);
  const message = "node is shutting down";
  const { status, ...rest } = node("old");
  nodes.put({ ...rest, status: { ...status, conditions: [{ type: "Ready", status: "False", message }] } });
  expect(await of("a")).toMatchObject({ turn: "now", cause: "NodeShutdown" });
  expect(await of("paused")).toMatchObject({ turn: "now", cause: "NodeShutdown" });
  expect(reads()).toBe(0);
});

it("resumes captured sandboxes in the order of their priorities", async () => {
  const { run, pods, of } = world(1);
  for (const name of ["a", "b", "c"]) {
    run(name, { phase: "Paused", disruption: underWay }, { more: { priority: name === "c" ? 1000 : 0 } });
    pods.remove(pods.get(`t/${name}`) ?? pod(name), true);
  }
  expect((await Promise.all(["a", "b", "c"].map(of))).map((one) => one?.turn)).toEqual(["now", "later", "now"]);
});

it("lets captured sandboxes resume in turn, and does not count one that no node takes", async () => {
  const { run, sandboxes, pods, of } = world(1);
  for (const name of ["a", "b", "c"]) run(name, { phase: "Paused", disruption: underWay });
  expect((await Promise.all(["a", "b", "c"].map(of))).map((one) => one?.turn)).toEqual(["now", "now", "later"]);
  sandboxes.put(sandbox("a", { phase: "Resuming", disruption: underWay }));
  expect((await of("c"))?.turn).toBe("later");
  const condition = { type: "PodScheduled", status: "False", reason: "Unschedulable", message: "no node" };
  pods.put({
    ...pod("a", { more: { nodeName: undefined } }),
    status: { phase: "Pending", conditions: [{ ...condition, status: "False" }] },
  });
  expect((await of("c"))?.turn).toBe("now");
});

it("counts a resume from its own beginning, however long ago its Pod was ended", async () => {
  const { clock, run, of } = world(1);
  const resumedAt = new Date(start.getTime() + 360_000).toISOString();
  clock.advance(360_000);
  for (const name of ["a", "b"]) run(name, { phase: "Resuming", disruption: underWay, resumedAt });
  run("c", { phase: "Paused", disruption: underWay });
  expect((await of("c"))?.turn).toBe("later");
});

it("restores those whose Pods are there together in the order of their priorities, and waits for none that takes long", async () => {
  const { clock, run, sandboxes, of } = world(1);
  const resumedAt = start.toISOString();
  const status = { phase: "Running", podIP: "10.0.0.1" };
  const given = (name: string) => ({ podUID: `pod-${name}`, podIP: "10.0.0.1", cellKey: "k" });
  const resuming = (name: string) => ({ phase: "Resuming", disruption: underWay, resumedAt, name });
  for (const name of ["a", "b", "c"]) {
    run(name, resuming(name), { more: { priority: name === "c" ? 1000 : 0 }, status });
  }
  const turns = async () => (await Promise.all(["a", "b", "c"].map(of))).map((one) => one?.turn);
  // The node has one place.
  expect(await turns()).toEqual(["later", "later", "now"]);
  sandboxes.put(sandbox("c", { ...resuming("c"), startingPod: given("c") }));
  expect(await turns()).toEqual(["later", "later", undefined]);
  sandboxes.put(sandbox("c"));
  expect(await turns()).toEqual(["now", "later", undefined]);
  sandboxes.put(sandbox("a", { ...resuming("a"), startingPod: given("a") }));
  expect(await turns()).toEqual([undefined, "later", undefined]);
  clock.advance(300_000);
  expect(await turns()).toEqual([undefined, "now", undefined]);
});

it("knows the priorities of captured sandboxes after a restart", async () => {
  const { sandboxes, of } = world(1);
  for (const name of ["a", "b", "c"]) {
    const disruption = { ...underWay, ...(name === "c" && { priority: 1000 }) };
    sandboxes.put(sandbox(name, { phase: "Paused", disruption }));
  }
  expect((await Promise.all(["a", "b", "c"].map(of))).map((one) => one?.turn)).toEqual(["now", "later", "now"]);
});

it("tries again after a restart, as nobody knows which nodes are new", async () => {
  const { sandboxes, of, clock } = world();
  const at = (seconds: number) => new Date(clock.now().getTime() + seconds * 1000).toISOString();
  const noTarget = { cause: "Evicted", at: at(-60), message: "none", pausedAt: at(-60), retryAt: at(600) };
  const { status, ...rest } = sandbox("a", { phase: "Paused", disruption: underWay });
  sandboxes.put({ ...rest, status: { ...status, ramet: { ...status?.ramet, noTarget } } });
  expect((await of("a"))?.turn).toBe("now");
});

it("moves a sandbox with volumes only to a node where these can be attached", async () => {
  const { clock, nodes, changed, run, of } = world();
  run("a", {}, { more: { volumes: [{ name: "data", persistentVolumeClaim: { claimName: "data" } }] } });
  nodes.put(node("old", { unschedulable: true }));
  clock.advance(1_000);
  expect(changed).toEqual(["t/a"]);
  expect(await of("a")).toMatchObject({ turn: "noTarget", message: expect.stringContaining("volumes") as string });
  const { metadata: own, ...rest } = node("zoned");
  nodes.put({ ...rest, metadata: { ...own, labels: { zone: "a" } } });
  expect(await of("a")).toMatchObject({ turn: "now" });
});

it("counts a captured sandbox as moving until it has resumed", async () => {
  const { nodes, run, of } = world(1);
  run("a", { phase: "Paused", disruption: underWay });
  run("b");
  nodes.put(node("old", { unschedulable: true }));
  expect((await of("b"))?.turn).toBe("later");
});

it("compares nodes at most once a second, however often sandboxes are read and Pods change", async () => {
  const { clock, nodes, pods, run, of, read, compared } = world();
  run("a");
  nodes.put(node("old", { unschedulable: true }));
  expect(await of("a")).toMatchObject({ turn: "now" });
  const ofOnePlan = compared();
  for (let at = 0; at < 500; at++) {
    pods.put(pod("other", { memory: `${at + 1}Mi`, more: { nodeName: "new" } }));
    clock.advance(10);
    expect(await read("a")).toMatchObject({ turn: "now" });
  }
  const plans = compared() / ofOnePlan - 1;
  expect(plans).toBeGreaterThan(0);
  expect(plans).toBeLessThanOrEqual(5);
});

it("compares nothing again when a Pod or a node reports what no move depends on", async () => {
  const { clock, nodes, pods, run, of, compared } = world();
  run("a");
  nodes.put(node("old", { unschedulable: true }));
  await of("a");
  clock.advance(2_000);
  const before = compared();
  nodes.put(node("old", { unschedulable: true }));
  pods.put(pod("a"));
  clock.advance(2_000);
  expect(before).toBeGreaterThan(0);
  expect(compared()).toBe(before);
});

it("does not act on an earlier plan when the mark is removed, or the capture has failed meanwhile", async () => {
  const { nodes, sandboxes, run, of, read } = world();
  run("a");
  nodes.put(node("old", { unschedulable: true }));
  expect(await of("a")).toMatchObject({ turn: "now" });
  sandboxes.put(sandbox("a", { disruption: { ...underWay, outcome: "Withdrawn", endedAt: start.toISOString() } }));
  expect(await read("a")).toMatchObject({ turn: "later" });
  nodes.put(node("old"));
  expect(await read("a")).toBeUndefined();
});

it("lets a captured sandbox resume without waiting for the next plan of moves", async () => {
  const { nodes, sandboxes, run, of, read, departures } = world(1);
  run("a");
  run("b");
  nodes.put(node("old", { unschedulable: true }));
  expect(await of("a")).toMatchObject({ turn: "now" });
  // The cache shows its capture later.
  const captured = sandbox("a", { phase: "Paused", disruption: underWay });
  expect(await departures.of(captured, undefined)).toEqual({ turn: "now" });
  sandboxes.put(captured);
  expect(await read("a")).toEqual({ turn: "now" });
});

describe("a node that the scheduler may choose again", () => {
  const tolerations = [Toleration.parse({ key: "team/drain", operator: "Exists", tolerationSeconds: 3600 })];
  const moving = sandbox("a", { phase: "Resuming", disruption: { ...underWay, nodeName: "old" } });
  it.each([
    [
      "its taint only discourages",
      { taints: [{ key: "karpenter.sh/disrupted", effect: "PreferNoSchedule" }] },
      ["old"],
    ],
    ["its taint is tolerated for some time", { taints: [{ key: "team/drain", effect: "NoExecute" }] }, ["old"]],
    ["it is cordoned", { unschedulable: true }, []],
    ["it stays", {}, []],
  ])("is avoided by the next Pod: %s", (_, spec, expected) => {
    const { nodes, departures } = world();
    nodes.put(node("old", spec));
    expect(departures.avoided(moving, tolerations)).toEqual(expected);
    expect(departures.avoided(sandbox("b"), tolerations)).toEqual([]);
  });

  it("is avoided in vain when it stays after all, and not when it is gone", () => {
    const { nodes, pods, departures, run } = world();
    run("a");
    const avoids = (name: string) => departures.avoidsInVain(pods.get("t/a")!, [name]);
    nodes.put(node("old", { taints: [{ key: "karpenter.sh/disrupted", effect: "PreferNoSchedule" }] }));
    expect(avoids("old")).toBe(false);
    nodes.put(node("old"));
    expect([avoids("old"), avoids("gone")]).toEqual([true, false]);
  });

  it("is left once: a sandbox whose next Pod is there stays, until another mark or another Pod", async () => {
    const { clock, nodes, pods, run, of } = world();
    const disruption = { ...underWay, outcome: "Migrated", nodeName: "old", endedAt: start.toISOString() };
    run("a", { disruption });
    nodes.put(node("old", { unschedulable: true }));
    clock.advance(120_000);
    expect(await of("a")).toBeUndefined();
    nodes.put(node("old", { taints: [{ key: "aws-node-termination-handler/spot-itn", effect: "NoSchedule" }] }));
    expect(await of("a")).toMatchObject({ turn: "now", cause: "NodeReclaimed" });
    nodes.put(node("old", { unschedulable: true }));
    const { metadata: own, ...next } = pod("a");
    pods.put({ ...next, metadata: { ...own, creationTimestamp: clock.now().toISOString() } });
    expect(await of("a")).toMatchObject({ turn: "now", cause: "NodeCordoned" });
  });
});

it("does not count a captured sandbox that waits for a node, or that its user has paused", async () => {
  const { run, sandboxes, nodes, of } = world(1);
  nodes.put(node("old", { unschedulable: true }));
  run("a");
  const [pausedAt, retryAt] = [60_000, 120_000].map((later) => new Date(start.getTime() + later).toISOString());
  const noTarget = { cause: "Evicted", at: start.toISOString(), message: "none", pausedAt, retryAt };
  const { status, ...rest } = sandbox("b", { phase: "Paused", disruption: underWay });
  sandboxes.put({ ...rest, status });
  expect(await of("a")).toMatchObject({ turn: "later" });
  sandboxes.put({ ...rest, metadata: metadata("b"), status: { ...status, ramet: { ...status?.ramet, noTarget } } });
  expect(await of("a")).toMatchObject({ turn: "now" });
  sandboxes.put(sandbox("b", { phase: "Paused", disruption: underWay, spec: { paused: true } }));
  expect(await of("a")).toMatchObject({ turn: "now" });
});

it("keeps room for a captured sandbox on nodes with the CPU of the node that it has left", async () => {
  const { run, pods, sandboxes, nodes, of, asked } = world();
  nodes.put(node("old", { unschedulable: true }));
  run("a");
  run("b", { phase: "Paused", disruption: underWay });
  pods.remove(pods.get("t/b")!, true);
  sandboxes.put(sandbox("b", { phase: "Paused", disruption: underWay }));
  asked.length = 0;
  await of("a");
  // Each of both sandboxes is compared with each node.
  expect(asked).toEqual(["old", "old", "old", "old"]);
});

it("keeps room for a captured sandbox also after a restart, as its template requests it", async () => {
  const { run, sandboxes, nodes, of } = world();
  nodes.put(node("old", { unschedulable: true }));
  run("a", {}, { memory: "5Gi" });
  const containers = [{ name: "main", image: "i", resources: { requests: { memory: "4Gi" } } }];
  const own = sandbox("b", { phase: "Paused", disruption: underWay, spec: { template: { spec: { containers } } } });
  sandboxes.put(own);
  expect(await of("a")).toMatchObject({ turn: "noTarget" });
  sandboxes.remove(own, true);
  expect(await of("a")).toMatchObject({ turn: "now" });
});

it("moves other sandboxes although the template of a captured one was made invalid", async () => {
  const { run, sandboxes, nodes, of } = world();
  nodes.put(node("old", { unschedulable: true }));
  run("a");
  const main = { name: "main", image: "i" };
  const invalid = [
    { containers: [{ ...main, resources: { requests: { memory: "many" } } }] },
    { containers: [{ ...main, resources: { requests: 1 } }] },
    { containers: [main], nodeSelector: 1 },
    { containers: "none" },
    undefined,
  ];
  for (const spec of invalid) {
    sandboxes.put(sandbox("b", { phase: "Paused", disruption: underWay, spec: { template: { spec } } }));
    expect(await of("a")).toMatchObject({ turn: "now" });
  }
});

it("resumes a sandbox that no node took when a node is added, uncordoned or ready again, and after some minutes", async () => {
  const { clock, nodes, sandboxes, read } = world();
  const waiting = (seconds: number) => {
    const noTarget = { cause: "Evicted", at: start.toISOString(), message: "none", retryAt: retryAt(seconds) };
    const { status, ...rest } = sandbox("a", { phase: "Paused", disruption: underWay });
    sandboxes.put({ ...rest, status: { ...status, ramet: { ...status?.ramet, noTarget } } });
  };
  const retryAt = (seconds: number) => new Date(clock.now().getTime() + seconds * 1000).toISOString();
  nodes.put(node("old", { unschedulable: true }));
  const notReady = (name: string): Node => ({ ...node(name), status: { ...node(name).status, conditions: [] } });
  for (const gained of [
    () => {
      nodes.put(node("added"));
    },
    () => {
      nodes.put(node("old"));
    },
    () => {
      nodes.put(notReady("new"));
      nodes.put(node("new"));
    },
    () => {
      nodes.put(node("taken", { taints: [{ key: "dedicated", value: "agents", effect: "NoExecute" }] }));
    },
    () => {
      nodes.put(node("taken", { taints: [] }));
    },
    () => {
      const { status, ...rest } = node("new");
      nodes.put({ ...rest, status: { ...status, allocatable: { ...status.allocatable, "nvidia.com/gpu": "1" } } });
    },
    () => {
      const { metadata: own, ...rest } = node("new");
      nodes.put({ ...rest, metadata: { ...own, labels: { "topology.ebs.csi.aws.com/zone": "a" } } });
    },
    () => {
      clock.advance(600_000);
    },
  ]) {
    clock.advance(1_000);
    waiting(600);
    nodes.put(node("leaves", { unschedulable: true }));
    expect(await read("a")).toEqual({ turn: "later" });
    gained();
    expect(await read("a")).toEqual({ turn: "now" });
  }
});
