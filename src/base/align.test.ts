import { expect, it } from "vitest";
import { align } from "./align.ts";

it("reads one inserted, removed or changed element as one", () => {
  expect(align(["a", "b", "c"], ["a", "x", "b", "c"])).toEqual({ changed: [], removed: [], added: [1] });
  expect(align(["a", "b", "c"], ["a", "c"])).toEqual({ changed: [], removed: [1], added: [] });
  expect(align(["a", "b", "c"], ["a", "x", "c"])).toEqual({ changed: [1], removed: [], added: [] });
  expect(align([], ["a"])).toEqual({ changed: [], removed: [], added: [0] });
  expect(align([{ a: 1, b: 2 }], [{ b: 2, a: 1 }])).toEqual({ changed: [], removed: [], added: [] });
});

it("keeps an insertion apart from a change after it", () => {
  expect(align(["a", "b", "c"], ["a", "x", "b", "y"])).toEqual({ changed: [], removed: [2], added: [1, 3] });
});
