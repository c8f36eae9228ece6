import { expect, it } from "vitest";
import { snapshotCycle } from "./resolve-inputs.ts";

const parents: Record<string, string> = { a: "b", b: "c", c: "a", self: "self", d: "a", e: "f" };
const parentOf = (name: string): string | undefined => parents[name];

it.each([
  ["a", ["a", "b", "c", "a"]],
  ["c", ["c", "a", "b", "c"]],
  ["self", ["self", "self"]],
  ["d", undefined],
  ["e", undefined],
  ["f", undefined],
])("returns the cycle that starts at %s, if any: %j", (name, cycle) => {
  expect(snapshotCycle(name, parentOf)).toEqual(cycle);
});
