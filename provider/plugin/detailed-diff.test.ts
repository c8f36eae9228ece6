import { expect, it } from "vitest";
import { detailedDiff } from "./detailed-diff.ts";

it("names the path of a change inside a step", () => {
  const before = { recipe: [{ run: "a" }, { run: "b" }], keepVersions: 5 };
  expect(detailedDiff(before, { ...before, recipe: [{ run: "a" }, { run: "c" }] })).toEqual([
    ["recipe[1].run", "update"],
  ]);
  expect(detailedDiff(before, { ...before, recipe: [{ run: "a" }, { start: "b" }] })).toEqual([
    ["recipe[1].run", "delete"],
    ["recipe[1].start", "add"],
  ]);
});

it("reads one inserted step as one", () => {
  const [first, last] = [{ run: "a" }, { waitFor: { port: 8000 } }];
  expect(detailedDiff({ recipe: [first, last] }, { recipe: [first, { run: "b" }, last] })).toEqual([
    ["recipe[1]", "add"],
  ]);
  expect(detailedDiff({ recipe: [first, { run: "b" }, last] }, { recipe: [first, last] })).toEqual([
    ["recipe[1]", "delete"],
  ]);
});

it("quotes names that are not identifiers, and reports what is absent on one side", () => {
  expect(detailedDiff({ env: { "a.b": "1" } }, { env: { "a.b": "2" }, lifetime: "8h" })).toEqual([
    ['env["a.b"]', "update"],
    ["lifetime", "add"],
  ]);
});
