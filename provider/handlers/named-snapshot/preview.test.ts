import { expect, it } from "vitest";
import type { RecipeStep } from "../../../src/api/recipe/recipe.ts";
import { snapshotDigest, type SnapshotDigest } from "../../../src/api/snapshot/snapshot-digest.ts";
import { describeChange, type SnapshotChange } from "./preview.ts";

const recipe = (rows: number): RecipeStep[] => [
  { copy: { path: "/data/prepare.py", content: "print(1)" } },
  { run: `python3 /data/prepare.py --rows ${rows}` },
  { start: "python3 -m http.server 8000" },
  { waitFor: { port: 8000 } },
];
const digest = (steps: RecipeStep[], contents: ("memory" | "filesystem")[] = ["filesystem"]): SnapshotDigest =>
  snapshotDigest({ from: { checkpoint: { id: "c" } }, recipe: steps, copied: new Map(), contents });
const change = (before: RecipeStep[], after: RecipeStep[]): SnapshotChange => ({
  before: { recipe: before, digest: digest(before), current: digest(before).digest },
  after: { recipe: after, digest: digest(after) },
  kept: [],
  followers: [],
});
const short = ({ digest: text }: SnapshotDigest): string => `${text.slice(0, 19)}…`;

it("describes the changed step, the digest, the first step to rebuild and the sets that roll", () => {
  const text = describeChange({ ...change(recipe(1), recipe(2)), followers: [{ name: "pool", replicas: 10 }] });
  expect(text).toBe(
    `recipe[1] "… --rows 1" => "… --rows 2"; digest ${short(digest(recipe(1)))} => ${short(digest(recipe(2)))}; ` +
      "rebuilds from step 2 of 4; pool rolls 10 sandboxes",
  );
});

it("counts the sandbox of a set with one replica in the singular", () => {
  const text = describeChange({ ...change(recipe(1), recipe(2)), followers: [{ name: "pool", replicas: 1 }] });
  expect(text).toMatch(/; pool rolls 1 sandbox$/);
});

it("reports that a kept version becomes current again", () => {
  const kept = [{ version: 6, digest: digest(recipe(1)).digest }];
  expect(describeChange({ ...change(recipe(2), recipe(1)), kept })).toMatch(/digest is kept as version 6: no rebuild$/);
});

it("reports a pin instead of a rebuild", () => {
  const text = describeChange({
    ...change(recipe(1), recipe(2)),
    held: "pinned to version 3",
    followers: [{ name: "pool", replicas: 10 }],
  });
  expect(text).toMatch(/; pinned to version 3$/);
});

it("names added and removed steps, and never the content of a file", () => {
  const longer = [...recipe(1), { run: "echo done" }];
  expect(describeChange(change(recipe(1), longer))).toMatch(/^recipe\[4\] added: run echo done; .*from step 5 of 5$/);
  expect(describeChange(change(longer, recipe(1)))).toMatch(
    /^recipe\[4\] removed: run echo done; .*captures again after the last step$/,
  );
  const other = [{ copy: { path: "/data/prepare.py", content: "print(2)" } }, ...recipe(1).slice(1)];
  const text = describeChange(change(recipe(1), other));
  expect(text).toMatch(/^recipe\[0\] copy \/data\/prepare.py: content or settings change; .*from step 1 of 4$/);
  expect(text).not.toMatch(/print/);
});

it("reports a digest that cannot be computed yet as unknown", () => {
  const open = { ...change(recipe(1), recipe(2)), after: { recipe: recipe(2), digest: undefined } };
  expect(describeChange(open)).toMatch(/digest unknown until its inputs are known$/);
});
