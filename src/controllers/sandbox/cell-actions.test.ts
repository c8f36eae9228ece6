import { expect, it } from "vitest";
import type { RestoreSource } from "../../backends/checkpoint-parts.ts";
import { withLayersOf } from "./cell-actions.ts";

const source = (...layers: object[]): Pick<RestoreSource, "parts"> =>
  ({ parts: [{ name: "cell", layers }, { name: "volumes" }] }) as never;
const [base, tools] = [
  { checkpointId: "base", sizeBytes: 10 },
  { checkpointId: "tools", sizeBytes: 20 },
];

it("records the layers of what is restored beside those that the sandbox has", () => {
  expect(withLayersOf(source(base, tools))).toEqual({ layers: ["base", "tools"], layerBytes: [10, 20] });
  const before = { layers: ["old", "base"], layerBytes: [5] };
  expect(withLayersOf(source(base, tools), before)).toEqual({
    layers: ["old", "base", "tools"],
    layerBytes: [5, 0, 20],
  });
});

it("records nothing for a boot, and for layers that are known", () => {
  expect(withLayersOf(undefined)).toEqual({});
  expect(withLayersOf(source())).toEqual({});
  expect(withLayersOf(source(base), { layers: ["base"], layerBytes: [10] })).toEqual({});
});
