import { expect, it } from "vitest";
import { onNode } from "./on-node.ts";

const field = { key: "metadata.name", operator: "In", values: ["n"] };

it("requires the node, in each of the alternatives of the template", () => {
  const required = (nodeSelectorTerms: object[]) => ({
    nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms } },
  });
  expect(onNode(undefined, "n")).toEqual(required([{ matchFields: [field] }]));
  const zone = (value: string) => ({ matchExpressions: [{ key: "zone", operator: "In", values: [value] }] });
  expect(onNode({ ...required([zone("a"), zone("b")]), podAffinity: {} }, "n")).toEqual({
    ...required([
      { ...zone("a"), matchFields: [field] },
      { ...zone("b"), matchFields: [field] },
    ]),
    podAffinity: {},
  });
});

it("leaves an invalid affinity to the API server", () => {
  expect(onNode({ nodeAffinity: 1 }, "n")).toEqual({ nodeAffinity: 1 });
});
