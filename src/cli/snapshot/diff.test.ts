import { expect, it } from "vitest";
import { versionTables } from "./diff.ts";

const unchanged = { from: "data@6", to: "data@7", recipe: [], changes: [], layers: [], packages: [], notes: [] };

it("prints notes and paths without control characters or lines of their own", () => {
  const path = "bin/\u001b[2J\nNOTE";
  const change = { path, change: "removed" as const, fromBytes: 1, toBytes: 0 };
  const layers = [{ layer: 1, files: 1, addedBytes: 0, removedBytes: 1, largest: [change] }];
  const text = versionTables({ ...unchanged, layers, notes: [`layer a is not compared: it has ${path} twice`, "b"] });
  expect(text.split("\n").slice(-4)).toEqual(["NOTE", "layer a is not compared: it has bin/^[[2J NOTE twice", "b", ""]);
  expect(text).toContain("bin/^[[2J NOTE\n");
});

it("says which files only a layer deletes", () => {
  const change = { path: "a", change: "removed" as const, deletion: true as const, fromBytes: 0, toBytes: 0 };
  const layers = [{ layer: 1, files: 1, addedBytes: 0, removedBytes: 0, largest: [change] }];
  expect(versionTables({ ...unchanged, layers })).toMatch(/1 +removed \(deleted by a layer\) +a\n/);
});
