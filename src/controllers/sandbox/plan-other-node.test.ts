import { expect, it } from "vitest";
import { stateWith } from "../../../test/setup/sandbox-state.ts";
import { Sandbox } from "../../api/kinds/sandbox.ts";
import { Pod } from "../../api/schema/pod.ts";
import { RametError } from "../../base/errors.ts";
import type { CpuPlan } from "../nodes/plan-cpus.ts";
import { isRefusedByCpu, lacksFeatures, planOtherNode } from "./plan-other-node.ts";
import { planSandbox } from "./plan.ts";
import type { SandboxState } from "./state.ts";

const now = new Date("2030-01-01T00:00:00Z");
const meta = { name: "a", namespace: "t", uid: "u", resourceVersion: "1", creationTimestamp: now.toISOString() };
const refusal = (code: "CpuFeaturesMissing" | "EngineFailed"): SandboxState["start"] => ({
  state: "failed",
  error: new RametError(code, "restoring checkpoint c failed: it needs the CPU feature avx2"),
});
const pod = (nodeName?: string, status: object = { phase: "Running" }) =>
  Pod.parse({ metadata: meta, spec: { nodeName, containers: [{ name: "main", image: "cell" }] }, status });
const lacking = (...nodes: string[]): CpuPlan => ({ lacking: nodes, missing: ["avx2"], avoided: undefined });

function state({
  start,
  cpus = lacking("n"),
  tried,
}: {
  start?: SandboxState["start"];
  cpus?: CpuPlan;
  tried?: string[];
}): SandboxState {
  const sandbox = Sandbox.parse({
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "Sandbox",
    metadata: meta,
    spec: {},
    status: { phase: "Pending", ramet: { ...(tried && { unsuitedNodes: tried }) } },
  });
  const source = { name: { namespace: "t", checkpointId: "c" }, parts: [] };
  return { sandbox, start, cpus, origin: { kind: "checkpoint", source }, now } as unknown as SandboxState;
}

it("recognizes a refusal by its code, and one that was lost by the ended Pod", () => {
  const refused = (start: SandboxState["start"], cpus: CpuPlan, status?: object) =>
    isRefusedByCpu(state({ start, cpus }), pod("n", status));
  expect(refused(refusal("CpuFeaturesMissing"), lacking())).toBe(true);
  expect(refused(refusal("EngineFailed"), lacking("n"))).toBe(false);
  // The process that received the refusal has ended.
  expect([refused(undefined, lacking("n"), { phase: "Failed" }), refused(undefined, lacking("n"))]).toEqual([
    true,
    false,
  ]);
});

it("replaces the Pod, and records the node", () => {
  const plan = planOtherNode(state({ start: refusal("CpuFeaturesMissing"), tried: ["m"] }), pod("n"));
  expect(plan.actions).toMatchObject([{ do: "deletePod" }]);
  expect(plan.status).toMatchObject({ phase: "Pending", ramet: { unsuitedNodes: ["m", "n"] } });
  expect(plan.status?.message).toBe(
    "The sandbox cannot start from the checkpoint c: its memory needs the CPU feature avx2, which the nodes m, n do not have. Add a node with a CPU like that of the node that captured it, or capture it again on one of these nodes [CpuFeaturesMissing]",
  );
});

it("fails a sandbox whose Pod is on the same node again, or that was tried on ten", () => {
  const many = Array.from({ length: 10 }, (_, at) => `m${at}`);
  for (const tried of [["n"], many]) {
    const plan = planOtherNode(state({ start: refusal("CpuFeaturesMissing"), tried }), pod("n"));
    expect(plan.actions).toEqual([]);
    expect(plan.status).toMatchObject({ phase: "Failed" });
  }
});

it("passes on the words of the cell if its CPU is not known", () => {
  const cpus = { ...lacking("n"), missing: [] };
  const plan = planOtherNode(state({ start: refusal("CpuFeaturesMissing"), cpus }), pod("n"));
  expect(plan.status?.message).toContain("it needs the CPU feature avx2");
});

it("adds the nodes without the features to the scheduler's words", () => {
  const conditions = [
    { type: "PodScheduled", status: "False", reason: "Unschedulable", message: "0/2 nodes are available." },
  ];
  const unscheduled = pod(undefined, { phase: "Pending", conditions });
  expect(lacksFeatures(state({}), unscheduled)?.message).toBe(
    "The sandbox cannot start from the checkpoint c: its memory needs the CPU feature avx2, which the node n does not have (the scheduler reports: 0/2 nodes are available)",
  );
  expect(lacksFeatures(state({ cpus: lacking() }), unscheduled)).toBeUndefined();
  expect(lacksFeatures(state({}), pod("n"))).toBeUndefined();
});

it("keeps the Pod after a move away from nodes that leave, and from those that lack a CPU feature", () => {
  const sandbox = Sandbox.parse({
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "Sandbox",
    metadata: { ...meta, finalizers: ["agents.kruise.io/sandbox"] },
    spec: {},
    status: { phase: "Resuming" },
  });
  const cpus = { lacking: ["m"], missing: [], avoided: { names: ["m"], instanceTypes: ["c4.large"] } };
  const avoidedBy = (more: Partial<SandboxState>) =>
    planSandbox(stateWith({ sandbox, pod: undefined, now, ...more })).actions.map((one) =>
      one.do === "createPod" ? one.avoided : one.do,
    );
  expect(avoidedBy({})).toEqual([undefined]);
  expect(avoidedBy({ leavingNodes: ["n"] })).toEqual([{ names: ["n"], instanceTypes: [] }]);
  expect(avoidedBy({ cpus, leavingNodes: ["n", "m"] })).toEqual([{ names: ["m", "n"], instanceTypes: ["c4.large"] }]);
});
