import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import type { RecipeStep } from "../../../src/api/recipe/recipe.ts";
import { snapshotDigest, type SnapshotDigest } from "../../../src/api/snapshot/snapshot-digest.ts";
import { reviewHeadings } from "../../../src/api/snapshot/snapshot-review.ts";
import type { HandlerContext, Values } from "../handler.ts";
import { describeChange, diffNamedSnapshot, type SnapshotChange, servedInputs } from "./preview.ts";
import { unknownValue } from "../validate.ts";

const recipe = (rows: number): RecipeStep[] => [
  { copy: { path: "/data/prepare.py", content: "print(1)" } },
  { run: `python3 /data/prepare.py --rows ${rows}` },
  { start: "python3 -m http.server 8000" },
  { waitFor: { port: 8000 } },
];
const digest = (steps: RecipeStep[], contents: ("memory" | "filesystem")[] = ["filesystem"]): SnapshotDigest =>
  snapshotDigest({ from: { checkpoint: { id: "c" } }, recipe: steps, copied: new Map(), contents });
const change = (before: RecipeStep[], after: RecipeStep[]): SnapshotChange => ({
  before: { recipe: before, steps: digest(before).steps, current: digest(before).digest },
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
  const inserted = [...recipe(1).slice(0, 1), { run: "id" }, ...recipe(1).slice(1)];
  expect(describeChange(change(recipe(1), inserted))).toMatch(/^recipe\[1\] added: run id; digest .*from step 2 of 5$/);
  const other = [{ copy: { path: "/data/prepare.py", content: "print(2)" } }, ...recipe(1).slice(1)];
  const text = describeChange(change(recipe(1), other));
  expect(text).toMatch(/^recipe\[0\] copy \/data\/prepare.py: content or settings change; .*from step 1 of 4$/);
  expect(text).not.toMatch(/print/);
});

it("reports a digest that cannot be computed yet as unknown", () => {
  const open = { ...change(recipe(1), recipe(2)), after: { recipe: recipe(2), digest: undefined } };
  expect(describeChange(open)).toMatch(/digest unknown until its inputs are known$/);
});

it("says that everything is rebuilt because the snapshot below it or its template changes", () => {
  const same = change(recipe(1), recipe(1));
  const after = { ...same.after, digest: digest(recipe(2)) };
  const below = (name: string) => ({ snapshot: { digest: `sha256:${name.repeat(64)}` } });
  expect(
    describeChange({
      ...same,
      before: { ...same.before, source: below("a") },
      after: { ...after, source: below("b") },
    }),
  ).toMatch(/^the snapshot that it is built from changes from sha256:a{12}… to sha256:b{12}…; digest /);
  const unknown = { snapshot: { digest: unknownValue } };
  expect(
    describeChange({
      ...same,
      before: { ...same.before, source: below("a") },
      after: { ...same.after, digest: undefined, source: unknown },
    }),
  ).toBe("the snapshot that it is built from may change; digest unknown until its inputs are known");
  const template = (image: string) => ({ template: { template: { spec: { containers: [{ name: "main", image }] } } } });
  const text = describeChange({
    ...same,
    before: { ...same.before, source: template("secret:1") },
    after: { ...after, source: template("secret:2") },
  });
  expect(text).toMatch(/^its template changes; digest /);
  expect(text).not.toMatch(/secret/);
});

it("continues after the steps that a failed build has finished", () => {
  const failed = { ...change(recipe(1), recipe(2)), built: digest(recipe(2)).steps.slice(0, 3) };
  expect(describeChange(failed)).toMatch(/rebuilds from step 4 of 4$/);
});

const source = { checkpoint: { id: "c" } };
const inputs = (rows: number): Values => ({
  name: "data",
  namespace: "default",
  from: source,
  source,
  recipe: recipe(rows),
  contents: ["filesystem"],
  timeout: "1 hour",
  owner: "o",
  keepVersions: 5,
  deletionPolicy: "Retain",
  stepCache: "EveryStep",
});
/** There is no cluster. */
const contextFor = (log: (line: string) => void, environment: Record<string, string> = {}): HandlerContext => ({
  configuration: { get: () => undefined },
  environment: { KUBECONFIG: "/nonexistent", ...environment },
  log,
  signal: new AbortController().signal,
});

it("compares with the version that clones get, also after a failed build", async () => {
  const built = { ...inputs(1), digest: digest(recipe(1)).digest };
  const failed = { ...inputs(2), digest: built.digest, served: servedInputs(built) };
  const lines: string[] = [];
  const context = contextFor((line) => void lines.push(line));
  await diffNamedSnapshot(context, failed, { ...inputs(3), digest: digest(recipe(3)).digest });
  expect(lines).toEqual([expect.stringMatching(/^data: recipe\[1\] "… --rows 1" => "… --rows 3"; .*from step 2 of 4/)]);
  await diffNamedSnapshot(context, failed, { ...inputs(1), digest: built.digest });
  expect(lines[1]).toMatch(/^data: the inputs of the current version again: nothing is built; according to the state/);
  const pinned = { ...inputs(3), digest: digest(recipe(3)).digest, pinnedVersion: 1 };
  await diffNamedSnapshot(context, built, pinned);
  expect(lines[2]).toMatch(/^data: pinnedVersion changes; recipe\[1\] .*; held by the program: nothing is built; /);
  // A version of other inputs stays current, which is no change.
  const held = { ...pinned, digest: built.digest };
  expect(await diffNamedSnapshot(context, held, pinned)).toMatchObject({ changes: false });
  // A state of a failed build that has not kept them.
  expect(servedInputs({ ...inputs(2), digest: built.digest })).toBeUndefined();
});

it("appends a row for each of several differences at the same time, below one line of headings", async () => {
  const directory = await mkdtemp(join(tmpdir(), "ramet-review-"));
  onTestFinished(() => rm(directory, { recursive: true }));
  const file = join(directory, "review.md");
  const context = contextFor(() => undefined, { RAMET_REVIEW_FILE: file });
  const names = Array.from({ length: 40 }, (_, index) => `data-${index}-`);
  const before = { ...inputs(1), digest: digest(recipe(1)).digest };
  await Promise.all(
    names.map((name) =>
      diffNamedSnapshot(context, { ...before, name }, { ...inputs(2), digest: digest(recipe(2)).digest, name }),
    ),
  );
  const text = await readFile(file, "utf8");
  expect(text.startsWith(reviewHeadings)).toBe(true);
  const rows = text.slice(reviewHeadings.length).trimEnd().split("\n");
  expect(rows).toHaveLength(names.length);
  expect(names.filter((name) => !rows.some((row) => row.includes(name)))).toEqual([]);
});
