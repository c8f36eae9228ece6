import { expect, it } from "vitest";
import { instanceTypeLabel } from "../pod/node-affinity.ts";
import { Pod } from "../schema/pod.ts";
import { amountsOf, misfit, placementOf, requestsOf, Selector, selects, type TargetNode, without } from "./target.ts";

const pod = (spec: object = {}, requests: object = { cpu: "500m", memory: "1Gi" }): Pod =>
  Pod.parse({
    metadata: { name: "a", namespace: "t", uid: "u", resourceVersion: "1", creationTimestamp: "2030-01-01T00:00:00Z" },
    spec: { nodeName: "old", containers: [{ name: "main", image: "i", resources: { requests } }], ...spec },
  });
const amd = { "kubernetes.io/arch": "amd64" };
const node = ({ labels = {}, free = {}, ...rest }: Partial<TargetNode> & { labels?: object } = {}): TargetNode => ({
  metadata: { name: "new", labels: { ...amd, zone: "a", ...labels } },
  spec: {},
  isReady: true,
  free: { ...amountsOf({ cpu: "2", memory: "4Gi", pods: "10" }), ...free },
  ...rest,
});
const required = (...terms: object[]) => ({
  affinity: { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: terms } } },
});
const term = (key: string, operator: string, ...values: string[]) => ({
  matchExpressions: [{ key, operator, values }],
});
const field = (operator: string, value: string) => ({
  matchFields: [{ key: "metadata.name", operator, values: [value] }],
});

it.each([
  ["it accepts the Pod", pod(), node(), undefined],
  ["it is the present one", pod({ nodeName: "new" }), node(), "unschedulable"],
  ["it is not ready", pod(), node({ isReady: false }), "unschedulable"],
  ["it is cordoned", pod(), node({ spec: { unschedulable: true } }), "unschedulable"],
  ["it has the selected label", pod({ nodeSelector: { zone: "a" } }), node(), undefined],
  ["it has another label", pod({ nodeSelector: { zone: "b" } }), node(), "selector"],
  ["one of the terms selects it", pod(required(term("zone", "In", "b"), term("zone", "In", "a"))), node(), undefined],
  ["no term selects it", pod(required(term("zone", "In", "b"))), node(), "selector"],
  ["an empty term selects nothing", pod(required({})), node(), "selector"],
  ["its name is avoided", pod(required(field("NotIn", "new"))), node(), "selector"],
  ["another one is the only one", pod(required(field("In", "other"))), node(), "selector"],
  ["its number is large enough", pod(required(term("gen", "Gt", "2"))), node({ labels: { gen: "3" } }), undefined],
  ["its number is too large", pod(required(term("gen", "Lt", "2"))), node({ labels: { gen: "3" } }), "selector"],
  ["a label does not exist", pod(required(term("gen", "DoesNotExist"))), node(), undefined],
  ["a label must exist", pod(required(term("gen", "Exists"))), node(), "selector"],
  ["it has another architecture", pod(), node({ labels: { "kubernetes.io/arch": "arm64" } }), "architecture"],
  ["its memory is used", pod(), node({ free: { memory: 2 ** 30 - 1 } }), "resources"],
  ["its memory is just enough", pod(), node({ free: { memory: 2 ** 30 } }), undefined],
  ["it has as many Pods as it can have", pod(), node({ free: { pods: 0 } }), "resources"],
  ["it has no GPU", pod({}, { "nvidia.com/gpu": "1" }), node(), "resources"],
  ["it has a GPU", pod({}, { "nvidia.com/gpu": "1" }), node({ free: { "nvidia.com/gpu": 1 } }), undefined],
] as const)("decides whether a node is a target: %s", (_, moved, target, expected) => {
  expect(misfit(placementOf(moved, amd), target, undefined)).toBe(expected);
});

it("needs a node to which each of the volumes can be attached", () => {
  const [a, b] = [term("zone", "In", "a"), term("zone", "In", "b")];
  const of = (...volumes: object[][]) => placementOf(pod(), amd, volumes as never);
  const parsed = (one: object) => ({ matchFields: [], ...one });
  expect(misfit(of([parsed(a)]), node(), undefined)).toBeUndefined();
  expect(misfit(of([parsed(a)], [parsed(b)]), node(), undefined)).toBe("volumes");
  expect(misfit(of([parsed(b), parsed(a)]), node(), undefined)).toBeUndefined();
});

it("needs a CPU that is known to fit, or one of the same family if none is known", () => {
  const on = (type: string) => ({ labels: { [instanceTypeLabel]: type } });
  const place = placementOf(pod(), { ...amd, [instanceTypeLabel]: "m5.large" });
  expect(misfit(place, node(on("m5.2xlarge")), undefined)).toBeUndefined();
  expect(misfit(place, node(on("c4.large")), undefined)).toBe("cpu");
  expect(misfit(place, node(on("c4.large")), true)).toBeUndefined();
  expect(misfit(place, node(on("m5.2xlarge")), false)).toBe("cpu");
  expect(misfit(placementOf(pod(), amd), node(), undefined)).toBeUndefined();
});

it("adds what all containers of a Pod request", () => {
  const resources = { requests: { cpu: "250m", memory: "256Mi" } };
  const initContainers = [
    { name: "once", image: "i", resources },
    { name: "sidecar", image: "i", restartPolicy: "Always", resources },
  ];
  const requests = requestsOf(pod({ initContainers }));
  expect(requests).toEqual({ pods: 1, cpu: 750, memory: 1280 * 2 ** 20 });
  expect(without(amountsOf({ cpu: "1", pods: "10" }), requests)).toEqual({ cpu: 250, pods: 9 });
});

it.each([
  [{}, true],
  [{ matchLabels: { app: "a" } }, true],
  [{ matchLabels: { app: "b" } }, false],
  [{ matchLabels: { app: "a" }, ...term("tier", "DoesNotExist") }, true],
  [term("app", "NotIn", "a"), false],
])("selects labels by %j: %s", (selector, expected) => {
  expect(selects(Selector.parse(selector), { app: "a" })).toBe(expected);
});
