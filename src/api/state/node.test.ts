import { describe, expect, it } from "vitest";
import { annotations } from "../names/labels.ts";
import { acceptsPods, leavingNode, refusesPods, type MarkedNode, Taint, Toleration } from "./node.ts";

const node = (
  taints: object[] = [],
  rest: Partial<MarkedNode["spec"]> = {},
  metadata: MarkedNode["metadata"] = {},
) => ({
  metadata,
  spec: { ...rest, taints: taints.map((one) => Taint.parse(one)) },
});
const tainted = (key: string, effect = "NoSchedule", value = "") => node([{ key, effect, value }]);
const toleration = (fields: object) => [Toleration.parse(fields)];

describe("a node that is leaving", () => {
  it.each([
    ["the cluster autoscaler", "ToBeDeletedByClusterAutoscaler", "NodeLeaving", false],
    ["Karpenter", "karpenter.sh/disrupted", "NodeLeaving", false],
    ["Karpenter before v1", "karpenter.sh/disruption", "NodeLeaving", false],
    ["AWS: a spot interruption", "aws-node-termination-handler/spot-itn", "NodeReclaimed", true],
    ["AWS: a scale-in", "aws-node-termination-handler/asg-lifecycle-termination", "NodeLeaving", false],
    ["AWS: a rebalance", "aws-node-termination-handler/rebalance-recommendation", "NodeLeaving", false],
    ["AWS: maintenance", "aws-node-termination-handler/scheduled-maintenance", "NodeLeaving", false],
    ["GKE", "cloud.google.com/impending-node-termination", "NodeReclaimed", true],
    ["AKS", "remediator.kubernetes.azure.com/unschedulable", "NodeReclaimed", true],
    ["AKS before", "remediator.aks.microsoft.com/unschedulable", "NodeReclaimed", true],
  ])("has the taint of %s: %s", (_, key, cause, urgent) => {
    expect(leavingNode(tainted(key))).toEqual({ leaving: true, cause, urgent, mark: `it has the taint ${key}` });
    expect(leavingNode(tainted(key), toleration({ operator: "Exists" }))).toEqual({ leaving: false });
  });

  it("is cordoned or deleted, and an urgent mark comes before others", () => {
    expect(leavingNode(node([], { unschedulable: true }))).toMatchObject({ cause: "NodeCordoned", urgent: false });
    expect(leavingNode(node([], {}, { deletionTimestamp: "2030-01-01T00:00:00Z" }))).toMatchObject({
      cause: "NodeLeaving",
    });
    const taints = ["karpenter.sh/disrupted", "aws-node-termination-handler/spot-itn"];
    const all = taints.map((key) => ({ key, effect: "NoSchedule" }));
    expect(leavingNode(node(all, { unschedulable: true }))).toMatchObject({ cause: "NodeReclaimed", urgent: true });
  });

  it("says that it is shutting down, whatever its taints are", () => {
    const message = "container runtime is down, node is shutting down";
    const ready = (status: string) => ({ status: { conditions: [{ type: "Ready", status, message }] } });
    const unready = tainted("node.kubernetes.io/not-ready", "NoExecute");
    expect(leavingNode({ ...unready, ...ready("False") })).toMatchObject({ cause: "NodeShutdown", urgent: true });
    expect(leavingNode({ ...unready, ...ready("Unknown") })).toEqual({ leaving: false });
  });

  it("ends Pods that do not tolerate its taint for ever", () => {
    const evicting = tainted("team/maintenance", "NoExecute");
    expect(leavingNode(evicting)).toMatchObject({ leaving: true, cause: "NodeTaint", urgent: true });
    expect(leavingNode(evicting, toleration({ key: "team/maintenance", operator: "Exists" }))).toEqual({
      leaving: false,
    });
    const forSeconds = toleration({ key: "team/maintenance", operator: "Exists", tolerationSeconds: 60 });
    expect(leavingNode(evicting, forSeconds)).toMatchObject({ leaving: true });
  });
});

describe("a node that stays", () => {
  it.each([
    ["has no mark", node()],
    ["may be removed", tainted("DeletionCandidateOfClusterAutoscaler", "PreferNoSchedule")],
    ["is for some Pods only", tainted("gpu")],
    [
      "does not respond",
      node([{ key: "node.kubernetes.io/unreachable", effect: "NoExecute" }], { unschedulable: true }),
    ],
    ["is not ready", tainted("node.kubernetes.io/not-ready", "NoExecute")],
    ["was shut down", tainted("node.kubernetes.io/out-of-service", "NoExecute", "nodeshutdown")],
    [
      "keeps its sandboxes",
      node([], { unschedulable: true }, { annotations: { [annotations.moveSandboxes]: "false" } }),
    ],
  ])("%s", (_, one) => {
    const perDefault = { operator: "Exists", effect: "NoExecute", tolerationSeconds: 300 };
    const tolerations = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"].map((key) =>
      Toleration.parse({ key, ...perDefault }),
    );
    expect(leavingNode(one, tolerations)).toEqual({ leaving: false });
  });
});

it("accepts Pods if it has no mark and they tolerate its taints", () => {
  const ofValue = (value: string) => toleration({ key: "gpu", value, effect: "NoSchedule" });
  expect(acceptsPods(node(), [])).toBe(true);
  expect(acceptsPods(tainted("gpu", "PreferNoSchedule"), [])).toBe(true);
  expect(acceptsPods(tainted("gpu", "NoSchedule", "a"), [])).toBe(false);
  expect(acceptsPods(tainted("gpu", "NoSchedule", "a"), ofValue("b"))).toBe(false);
  expect(acceptsPods(tainted("gpu", "NoSchedule", "a"), ofValue("a"))).toBe(true);
  expect(acceptsPods(tainted("node.kubernetes.io/out-of-service", "NoExecute"), [])).toBe(false);
  expect(acceptsPods(tainted("karpenter.sh/disrupted", "PreferNoSchedule"), [])).toBe(false);
  const cordoned = node([], { unschedulable: true });
  expect(acceptsPods(cordoned, [])).toBe(false);
  expect(acceptsPods(cordoned, toleration({ key: "node.kubernetes.io/unschedulable", operator: "Exists" }))).toBe(true);
  const kept = node([], { unschedulable: true }, { annotations: { [annotations.moveSandboxes]: "false" } });
  expect(acceptsPods(kept, [])).toBe(false);
});

it("keeps Pods away without its controllers only with a cordon or a taint that they do not tolerate", () => {
  expect(refusesPods(node([], { unschedulable: true }), [])).toBe(true);
  expect(refusesPods(tainted("karpenter.sh/disrupted"), [])).toBe(true);
  const discouraging = tainted("karpenter.sh/disrupted", "PreferNoSchedule");
  const forSeconds = toleration({ key: "team/maintenance", operator: "Exists", tolerationSeconds: 60 });
  const deleted = node([], {}, { deletionTimestamp: "2030-01-01T00:00:00Z" });
  for (const [one, tolerations] of [
    [discouraging, []],
    [tainted("team/maintenance", "NoExecute"), forSeconds],
    [deleted, []],
  ] as const) {
    expect(leavingNode(one, tolerations)).toMatchObject({ leaving: true });
    expect(refusesPods(one, tolerations)).toBe(false);
    expect(acceptsPods(one, tolerations)).toBe(false);
  }
});
