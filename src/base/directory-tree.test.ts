import fc from "fast-check";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { readDirectoryTree, treeDigest, type TreeEntry } from "./directory-tree.ts";

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "ramet-tree-"));
  mkdirSync(join(directory, "lib/empty"), { recursive: true });
  writeFileSync(join(directory, "lib/a"), "a");
  writeFileSync(join(directory, "run.sh"), "true", { mode: 0o755 });
  symlinkSync("lib/a", join(directory, "link"));
});
afterEach(() => {
  rmSync(directory, { recursive: true });
});

const digest = (path = directory) => readDirectoryTree(path).digest;

/** A changed value here copies every tree of existing recipes again. Change it only on purpose, and with a new `v`. */
it("keeps the digest of a known tree", () => {
  expect(digest()).toMatchInlineSnapshot(`"c7f8fe8048ccae8441d85d22c30c1fdbd35d53068ed8720a49122675ad6b76c1"`);
});

it("covers names, content, links and whether a file can be run, but no times and no other modes", () => {
  const before = digest();
  utimesSync(join(directory, "lib/a"), 1, 1);
  chmodSync(join(directory, "lib/a"), 0o600);
  chmodSync(join(directory, "run.sh"), 0o700);
  expect(digest()).toBe(before);
  const seen = new Set([before]);
  const changes = [
    () => {
      writeFileSync(join(directory, "lib/a"), "b");
    },
    () => {
      chmodSync(join(directory, "lib/a"), 0o755);
    },
    () => {
      mkdirSync(join(directory, "other"));
    },
    () => {
      rmSync(join(directory, "link"));
      symlinkSync("lib", join(directory, "link"));
    },
    () => {
      rmSync(join(directory, "lib/empty"), { recursive: true });
    },
  ];
  for (const change of changes) {
    change();
    seen.add(digest());
  }
  expect(seen.size).toBe(changes.length + 1);
});

it("reads a single file as a tree", () => {
  const { entries, root } = readDirectoryTree(join(directory, "run.sh"));
  expect({ root, entries }).toMatchObject({ root: directory, entries: [{ path: "run.sh", executable: true }] });
  expect(() => readDirectoryTree(join(directory, "missing"))).toThrow("Cannot read");
});

it("does not depend on the order of the entries, and differs for others", () => {
  const entry: fc.Arbitrary<TreeEntry> = fc.oneof(
    fc.record({ path: fc.string(), type: fc.constant("directory" as const) }),
    fc.record({ path: fc.string(), type: fc.constant("link" as const), target: fc.string() }),
  );
  const tree = fc.uniqueArray(entry, { selector: ({ path }) => path, maxLength: 6 });
  fc.assert(
    fc.property(tree, tree, (a, b) => {
      expect(treeDigest(a)).toBe(treeDigest(a.toReversed()));
      const key = (one: TreeEntry[]) => JSON.stringify(one.map((each) => JSON.stringify(each)).sort());
      expect(treeDigest(a) === treeDigest(b)).toBe(key(a) === key(b));
    }),
  );
});
