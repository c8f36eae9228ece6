import { expect, it } from "vitest";
import { comparedVersion } from "../../../test/setup/compared-version.ts";
import { diffVersions, recordedRecipe } from "./diff-versions.ts";

const copy = { copy: { path: "/a", configMapKeyRef: { name: "files", key: "a" } } };
const install = (version: string) => ({ run: `pip install pandas==${version}` });

it("aligns the steps of two versions, and counts them from 1", () => {
  const before = comparedVersion(6, recordedRecipe([copy, install("2.2.0"), { run: "id" }], new Map()));
  const after = comparedVersion(7, recordedRecipe([{ env: { A: "1" } }, copy, install("2.3.0")], new Map()));
  const { from, to, recipe } = diffVersions(before, after);
  expect([from, to]).toEqual(["data@6", "data@7"]);
  expect(recipe).toEqual([
    { to: { step: 1, text: "env A" } },
    { from: { step: 2, text: "run pip install pandas==2.2.0" } },
    { from: { step: 3, text: "run id" }, to: { step: 3, text: "run pip install pandas==2.3.0" } },
  ]);
});

it("reports a step whose copied content has changed", () => {
  const [before, after] = ["1", "2"].map((sha256, index) =>
    comparedVersion(index + 1, recordedRecipe([copy], new Map([[0, { sha256 }]]))),
  );
  const step = { step: 1, text: "copy /a" };
  if (before === undefined || after === undefined) throw new Error("no versions");
  expect(diffVersions(before, after).recipe).toEqual([{ from: step, to: step }]);
  expect(diffVersions(before, { ...before }).recipe).toEqual([]);
});

it("says that the steps of a version are not recorded, and names the fields that differ", () => {
  const before = comparedVersion(1, {}, { sizeBytes: 5 });
  const after = comparedVersion(2, recordedRecipe([copy], new Map()), { sizeBytes: 9, secrets: ["login"] });
  const { recipe, changes } = diffVersions(before, after);
  expect(recipe).toBeNull();
  expect(changes).toContainEqual({ field: "size_bytes", from: 5, to: 9 });
  expect(changes).toContainEqual({ field: "secrets", from: null, to: ["login"] });
  // An annotation that somebody has written is no recipe.
  expect(diffVersions(comparedVersion(1, { "ramet.dev/recipe": '{"a":1}' }), after).recipe).toBeNull();
});
