import { expect, it } from "vitest";
import type { Checkpoint } from "../api/kinds/checkpoint.ts";
import type { Sandbox } from "../api/kinds/sandbox.ts";
import { Pod } from "../api/schema/pod.ts";
import { storeSpeed } from "../api/state/checkpoint.ts";
import { ClusterNode } from "./cluster-facts.ts";
import { type DrainState, planDrain } from "./plan-drain.ts";

const mib = 1024 ** 2;
const node = (name: string, spec: object = {}, labels: object = {}) =>
  ClusterNode.parse({
    metadata: { name, uid: name, resourceVersion: "1", labels },
    spec,
    status: { conditions: [{ type: "Ready", status: "True" }], nodeInfo: { architecture: "amd64" } },
  });
const pod = (name: string, policy: string | undefined = "Migrate", spec: object = {}) =>
  Pod.parse({
    metadata: {
      name,
      namespace: "t",
      uid: `pod-${name}`,
      creationTimestamp: "2030-01-01T00:00:00Z",
      resourceVersion: "1",
      ...(policy !== "" && { annotations: { "ramet.dev/on-disruption": policy } }),
    },
    spec: {
      terminationGracePeriodSeconds: 30,
      containers: [{ name: "sandbox", image: "i", resources: { limits: { memory: "100Mi" } } }],
      ...spec,
    },
  });
const sandbox = (name: string, metadata: object = {}) =>
  ({ metadata: { namespace: "t", name, uid: name, ...metadata }, spec: {} }) as unknown as Sandbox;
const ownedBy = (kind: string) => ({
  ownerReferences: [{ apiVersion: "v1", kind, name: "x", uid: "x", controller: true }],
});
/** One that took ten seconds. */
const checkpoint = (sizeBytes: number, of = "other", minute = 0) =>
  ({
    metadata: { namespace: "t", name: "c", annotations: { "agents.kruise.io/sandbox-id": `t--${of}` } },
    status: {
      ramet: { sizeBytes, cutAt: `2030-01-01T00:${10 + minute}:00Z`, readyAt: `2030-01-01T00:${10 + minute}:10Z` },
    },
  }) as unknown as Checkpoint;
const state = (more: Partial<DrainState>): DrainState => ({
  node: "a",
  nodes: [node("a"), node("b")],
  pods: [pod("s")],
  sandboxes: [sandbox("s")],
  checkpoints: [checkpoint(1000 * mib)],
  ...more,
});
const stepOf = (more: Partial<DrainState>) => planDrain(state(more)).steps[0];

it("reports where a sandbox continues, and that its grace period suffices by its memory limit", () => {
  expect(planDrain(state({}))).toEqual({
    node: "a",
    steps: [
      {
        namespace: "t",
        name: "s",
        outcome: "Migrates",
        why: "its policy is Migrate",
        sizeBytes: 100 * mib,
        sizeOf: "MemoryLimit",
        captureSeconds: 2,
        heldSeconds: 19,
        suffices: "Yes",
        targets: ["b"],
      },
    ],
    totals: { Migrates: 1, IsPaused: 0, IsReplaced: 0, Ends: 0, withoutTarget: 0, graceTooShort: 0, unknown: 0 },
    seconds: { least: 2, most: 2 },
    storeBytesPerSecond: 100 * mib,
  });
});

it("prefers the size of the sandbox's last checkpoint, and reports a grace period that is too short", () => {
  const checkpoints = [checkpoint(50 * mib, "s", 1), checkpoint(3000 * mib, "s", 2), checkpoint(1000 * mib)];
  expect(stepOf({ checkpoints })).toMatchObject({ sizeBytes: 3000 * mib, sizeOf: "Checkpoint", suffices: "No" });
});

it("distinguishes a grace period that suffices only if others are not captured at the same time", () => {
  const names = Array.from({ length: 11 }, (_, index) => `s${index}`);
  const plan = planDrain(
    state({ pods: names.map((name) => pod(name)), sandboxes: names.map((name) => sandbox(name)) }),
  );
  expect(plan.steps.map(({ suffices }) => suffices)).toEqual(names.map(() => "Alone"));
  expect(plan.seconds).toEqual({ least: 2, most: 22 });
});

it("does not guess without a size or without a capture that shows the store's speed", () => {
  const plan = planDrain(state({ checkpoints: [checkpoint(1 * mib)] }));
  expect(plan.totals.unknown).toBe(1);
  expect(plan.steps[0]).not.toHaveProperty("suffices");
  expect(plan).not.toHaveProperty("seconds");
  const containers = [{ name: "sandbox", image: "i" }];
  expect(stepOf({ pods: [pod("s", "Migrate", { containers })] })).not.toHaveProperty("captureSeconds");
});

it.each([
  ["", {}, "Ends", "earlier release"],
  ["End", {}, "Ends", "its policy is End"],
  ["Pause", {}, "IsPaused", "its policy is Pause"],
  ["Migrate", ownedBy("SandboxSet"), "IsReplaced", "its set makes another one"],
  [
    "Migrate",
    { ...ownedBy("SandboxSet"), labels: { "agents.kruise.io/sandbox-claimed": "true" } },
    "Migrates",
    "Migrate",
  ],
  ["Migrate", ownedBy("NamedSnapshot"), "IsReplaced", "the build of the snapshot starts again"],
])("reports what becomes of a sandbox with the policy %j and the metadata %j: %s", (policy, metadata, outcome, why) => {
  const step = stepOf({ pods: [pod("s", policy)], sandboxes: [sandbox("s", metadata)] });
  expect(step?.outcome).toBe(outcome);
  expect(step?.why).toContain(why);
});

it("names no node of another architecture, and reports a sandbox that waits for a node", () => {
  const arm = node("b", {}, { "kubernetes.io/arch": "arm64" });
  expect(stepOf({ nodes: [node("a"), arm] })).toMatchObject({
    targets: [],
    why: expect.stringContaining("waits") as string,
  });
});

it("takes the speed of the slower captures of the latest ones", () => {
  const captures = [100, 200, 300, 400].map((size, minute) => checkpoint(size * mib, "x", minute));
  expect(storeSpeed(captures)).toBe(20 * mib);
  expect(storeSpeed([])).toBeUndefined();
});

const term = (matchExpressions: object[]) => ({
  affinity: {
    nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [{ matchExpressions }] } },
  },
});
const taint = { key: "team", value: "x", effect: "NoSchedule" };
it.each<[boolean, string, ClusterNode, object]>([
  [true, "an ordinary node", node("b"), {}],
  [false, "a cordoned node", node("b", { unschedulable: true }), {}],
  [false, "a node with a taint", node("b", { taints: [taint] }), {}],
  [true, "a tolerated taint", node("b", { taints: [taint] }), { tolerations: [{ key: "team", value: "x" }] }],
  [false, "a taint with another value", node("b", { taints: [taint] }), { tolerations: [{ key: "team", value: "y" }] }],
  [true, "every taint", node("b", { taints: [taint] }), { tolerations: [{ operator: "Exists" }] }],
  [
    false,
    "a node that is about to be removed",
    node("b", { taints: [{ ...taint, key: "karpenter.sh/disrupted" }] }),
    {},
  ],
  [true, "a taint that only discourages", node("b", { taints: [{ ...taint, effect: "PreferNoSchedule" }] }), {}],
  [false, "a missing label", node("b"), { nodeSelector: { pool: "x" } }],
  [true, "a label", node("b", {}, { pool: "x" }), { nodeSelector: { pool: "x" } }],
  [true, "In", node("b", {}, { pool: "x" }), term([{ key: "pool", operator: "In", values: ["x"] }])],
  [false, "NotIn", node("b", {}, { pool: "x" }), term([{ key: "pool", operator: "NotIn", values: ["x"] }])],
  [true, "DoesNotExist", node("b"), term([{ key: "pool", operator: "DoesNotExist" }])],
  [false, "Exists", node("b"), term([{ key: "pool", operator: "Exists" }])],
  [true, "Gt", node("b", {}, { n: "5" }), term([{ key: "n", operator: "Gt", values: ["4"] }])],
  [false, "a term without requirements", node("b"), term([])],
])("answers %s for %s", (expected, _, on, spec) => {
  const { targets } = stepOf({ nodes: [node("a"), on], pods: [pod("s", "Migrate", spec)] }) ?? {};
  expect(targets).toEqual(expected ? ["b"] : []);
});
