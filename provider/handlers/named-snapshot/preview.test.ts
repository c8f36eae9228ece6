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
  before: { recipe: before, digest: digest(before), served: digest(before).digest },
  after: { recipe: after, digest: digest(after) },
  kept: [],
  followers: [],
});
const short = ({ digest: text }: SnapshotDigest): string => `${text.slice(0, 19)}…`;

it("says which step changes, which digest, from where on it is built and what rolls", () => {
  const text = describeChange({ ...change(recipe(1), recipe(2)), followers: [{ name: "pool", replicas: 10 }] });
  expect(text).toBe(
    `recipe[1] "… --rows 1" => "… --rows 2"; digest ${short(digest(recipe(1)))} => ${short(digest(recipe(2)))}; ` +
      "rebuilds from step 2 of 4; pool rolls 10 sandboxes",
  );
});

it("says that a kept version serves again", () => {
  const kept = [{ version: 6, digest: digest(recipe(1)).digest }];
  expect(describeChange({ ...change(recipe(2), recipe(1)), kept })).toMatch(/digest is kept as version 6: no rebuild$/);
});

it("says that nothing moves where somebody holds a version", () => {
  const text = describeChange({
    ...change(recipe(1), recipe(2)),
    held: "it is pinned to version 3",
    followers: [{ name: "pool", replicas: 10 }],
  });
  expect(text).toMatch(/; it is pinned to version 3$/);
});

it("names steps that come and go, and never the content of a file", () => {
  const longer = [...recipe(1), { run: "echo done" }];
  expect(describeChange(change(recipe(1), longer))).toMatch(
    /^recipe\[4\] is added: run echo done; .*from step 5 of 5$/,
  );
  expect(describeChange(change(longer, recipe(1)))).toMatch(
    /^recipe\[4\] is removed: run echo done; .*captures anew after its last step$/,
  );
  const other = [{ copy: { path: "/data/prepare.py", content: "print(2)" } }, ...recipe(1).slice(1)];
  const text = describeChange(change(recipe(1), other));
  expect(text).toMatch(/^recipe\[0\] copy \/data\/prepare.py: another content or setting; .*from step 1 of 4$/);
  expect(text).not.toMatch(/print/);
});

it("says of what cannot be computed yet that it is not known", () => {
  const open = { ...change(recipe(1), recipe(2)), after: { recipe: recipe(2), digest: undefined } };
  expect(describeChange(open)).toMatch(/known when its inputs are$/);
});
