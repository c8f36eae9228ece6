import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { RunError } from "@pulumi/pulumi";
import { afterAll, beforeAll, expect, it } from "vitest";
import { copy } from "./recipe.ts";

let directory: string;

beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), "ramet-recipe-"));
});

afterAll(() => {
  rmSync(directory, { recursive: true });
});

it("copies a text file of at most 256 KiB", () => {
  expect(copy(file("a.py", "print(1)\n"), "/a.py")).toEqual({ copy: { path: "/a.py", content: "print(1)\n" } });
});

it("copies a directory by its digest", () => {
  const tree = join(directory, "tree");
  mkdirSync(tree);
  writeFileSync(join(tree, "large"), "x".repeat(1_000_000));
  const before = copy(tree, "/tree").copy;
  expect(before).toEqual({ path: "/tree", tree: expect.stringMatching(/^[0-9a-f]{64}$/) as string });
  expect(copy(tree, "/tree").copy).toEqual(before);
  writeFileSync(join(tree, "large"), "y");
  expect(copy(tree, "/tree").copy).not.toEqual(before);
});

it("rejects unreadable, large and binary files with a single line", () => {
  const refused = (path: string): unknown => {
    try {
      return copy(path, "/a");
    } catch (error) {
      return error;
    }
  };
  const all = [
    refused("./missing.py"),
    refused(file("large", "a".repeat(262_145))),
    refused(file("b", Buffer.of(255))),
  ];
  expect(all.map((error) => RunError.isInstance(error))).toEqual([true, true, true]);
  expect(all.map(String)).toEqual([
    expect.stringMatching(/^\S+: Cannot read the file of a copy step: ENOENT.*missing\.py.*the program's directory/),
    expect.stringMatching(/large is not a text file of at most 256 KiB/),
    expect.stringMatching(/b is not a text file of at most 256 KiB/),
  ]);
});

function file(name: string, content: string | Buffer): string {
  const path = join(directory, name);
  writeFileSync(path, content);
  return path;
}
