import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { kinds } from "../src/api/kinds/crd.ts";
import { caseFiles, promises, provingFiles, walks } from "./promises.ts";

const root = join(import.meta.dirname, "..");

it("lists files that exist and are not unit tests", () => {
  const all = [...provingFiles, ...caseFiles];
  expect(all.filter((path) => !existsSync(join(root, path)))).toEqual([]);
  expect(all.filter((path) => !/^test\/(contract|cluster|hostile|clients|program)\//.test(path))).toEqual([]);
});

it("proves each promise by a file", () => {
  const numbers = Object.keys(promises).map((promise) => Number.parseInt(promise));
  // No test proves sandboxes that outlive a node (14).
  expect(numbers).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]);
  expect(Object.values(promises).filter((files) => files.length === 0)).toEqual([]);
});

it("walks through each kind", () => {
  const walked = Object.keys(walks).flatMap((title) => title.split(", "));
  expect(walked).toEqual(expect.arrayContaining(kinds.map(({ kind }) => kind)));
});
