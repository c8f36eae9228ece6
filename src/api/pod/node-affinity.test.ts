import { expect, it } from "vitest";
import { excludedNodes, limitedAffinity } from "./node-affinity.ts";

const field = { key: "metadata.name", operator: "In", values: ["n"] };

it("requires the node, in each of the alternatives of the template", () => {
  const required = (nodeSelectorTerms: object[]) => ({
    nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms } },
  });
  expect(limitedAffinity(undefined, { node: "n" })).toEqual(required([{ matchFields: [field] }]));
  const zone = (value: string) => ({ matchExpressions: [{ key: "zone", operator: "In", values: [value] }] });
  expect(limitedAffinity({ ...required([zone("a"), zone("b")]), podAffinity: {} }, { node: "n" })).toEqual({
    ...required([
      { ...zone("a"), matchFields: [field] },
      { ...zone("b"), matchFields: [field] },
    ]),
    podAffinity: {},
  });
});

it("leaves an invalid affinity to the API server", () => {
  expect(limitedAffinity({ nodeAffinity: 1 }, { node: "n" })).toEqual({ nodeAffinity: 1 });
});

it("excludes nodes by name, one a requirement, and instance types, and prefers nodes that fit", () => {
  const avoided = { names: ["a", "b"], instanceTypes: ["old"], preferred: { label: "l", values: ["x", "y"] } };
  const zone = { key: "zone", operator: "In", values: ["z"] };
  const given = {
    nodeAffinity: {
      requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [{ matchExpressions: [zone] }] },
      preferredDuringSchedulingIgnoredDuringExecution: [{ weight: 1, preference: {} }],
    },
  };
  expect(limitedAffinity(given, { avoided })).toEqual({
    nodeAffinity: {
      requiredDuringSchedulingIgnoredDuringExecution: {
        nodeSelectorTerms: [
          {
            matchFields: [
              { key: "metadata.name", operator: "NotIn", values: ["a"] },
              { key: "metadata.name", operator: "NotIn", values: ["b"] },
            ],
            matchExpressions: [zone, { key: "node.kubernetes.io/instance-type", operator: "NotIn", values: ["old"] }],
          },
        ],
      },
      preferredDuringSchedulingIgnoredDuringExecution: [
        { weight: 1, preference: {} },
        { weight: 100, preference: { matchExpressions: [{ key: "l", operator: "In", values: ["x", "y"] }] } },
      ],
    },
  });
});

it("finds the nodes that an affinity excludes by name", () => {
  const avoided = { names: ["a", "b"], instanceTypes: ["old"] };
  expect(excludedNodes(limitedAffinity(undefined, { node: "n", avoided }))).toEqual(["a", "b"]);
  expect([undefined, {}, { nodeAffinity: 1 }].flatMap(excludedNodes)).toEqual([]);
});
