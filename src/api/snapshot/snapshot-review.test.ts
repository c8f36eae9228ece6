import { expect, it } from "vitest";
import { comparedVersion } from "../../../test/setup/compared-version.ts";
import { Sandbox, sandboxKind } from "../kinds/sandbox.ts";
import { SandboxSet } from "../kinds/sandbox-set.ts";
import type { NamedSnapshot } from "../kinds/named-snapshot.ts";
import type { RecipeStep } from "../recipe/recipe.ts";
import { followsSnapshot, reviewHeadings, reviewRow, reviewSnapshot, type ReviewFacts } from "./snapshot-review.ts";
import { snapshotDigest } from "./snapshot-digest.ts";

const steps = (rows: number): RecipeStep[] => [{ run: "pip install pandas" }, { run: `make ${rows}` }, { run: "id" }];
const digest = (recipe: RecipeStep[]) =>
  snapshotDigest({ from: { checkpoint: { id: "c" } }, recipe, copied: new Map(), contents: ["filesystem"] });

/** A named snapshot whose current version 1 has this recipe. */
function built(recipe: RecipeStep[]): NamedSnapshot {
  const { snapshot, version } = comparedVersion(1, {}, { digest: digest(recipe).digest, sizeBytes: 3 * 1024 ** 2 });
  const done = recipe.map((step, index) => ({
    digest: digest(recipe).steps[index] ?? "",
    step: `run ${step.run ?? ""}`,
    state: "Succeeded" as const,
    cached: false,
    ...(index < 2 && { milliseconds: 90_000 }),
  }));
  const status = { versions: [version], version: 1, digest: version.digest, steps: done };
  return { ...snapshot, status };
}

function clone(name: string, annotations: Record<string, string>, owner?: string): Sandbox {
  const made = { uid: name, resourceVersion: "1", creationTimestamp: "2026-01-01T00:00:00Z" };
  const owners = owner === undefined ? [] : [{ apiVersion: "v1", kind: owner, name: "a", uid: "u", controller: true }];
  return Sandbox.parse({
    apiVersion: sandboxKind.apiVersion,
    kind: "Sandbox",
    metadata: { name, namespace: "t", annotations, ownerReferences: owners, ...made },
    spec: { templateRef: { name: "python" } },
    status: { phase: "Running" },
  });
}

const facts = (recipe: RecipeStep[], changes: Partial<ReviewFacts> = {}): ReviewFacts => ({
  name: "data",
  recipe,
  digest: digest(recipe),
  found: built(steps(1)),
  sets: [{ name: "pool", replicas: 3 }],
  sandboxes: [],
  ...changes,
});

it("counts the steps that are reused and rebuilt, and estimates their time from the last build", () => {
  const sandboxes = [
    clone("by-name", { "ramet.dev/restore-from": "data", "ramet.dev/resolved-checkpoint": "c-1" }),
    clone("by-version", { "ramet.dev/restore-from": "data@1" }),
    clone("of-pool", { "ramet.dev/resolved-checkpoint": "c-1" }, "SandboxSet"),
    clone("of-another", { "ramet.dev/resolved-checkpoint": "c-2" }),
  ];
  const review = reviewSnapshot(facts(steps(2), { sandboxes }));
  expect(review).toEqual({
    name: "data",
    effect: "a version is built after version 1",
    steps: { reused: 1, rebuilt: 2, first: "run make 2" },
    // Of the changed step, the time of the one in its place; of the last one, none is known.
    estimate: { milliseconds: 90_000, isPartial: true },
    sizeBytes: 3 * 1024 ** 2,
    rolls: [{ name: "pool", replicas: 3 }],
    clones: ["by-name", "by-version"],
  });
  expect(reviewRow(review)).toBe(
    "| <code>data</code> | <code>a version is built after version 1</code> | 1 of 3 | 2, from <code>run make 2</code> " +
      "| at least 1.5 | 3MiB | <code>pool &#40;3&#41;</code> | <code>by-name</code>, <code>by-version</code> |\n",
  );
});

it("rebuilds nothing and rolls nothing without a change, while pinned, and until the inputs are known", () => {
  const none = { rolls: [], clones: [] };
  expect(reviewSnapshot(facts(steps(1)))).toMatchObject({ effect: "no change", ...none });
  expect(reviewSnapshot(facts(steps(2), { held: "pinned to version 1" }))).toMatchObject({
    effect: "pinned to version 1",
    ...none,
  });
  const open = reviewSnapshot(facts(steps(2), { digest: undefined }));
  expect([open.effect, open.steps]).toEqual(["unknown until its inputs are known", undefined]);
  expect(reviewSnapshot(facts(steps(2), { found: undefined }))).toMatchObject({
    effect: "version 1 is built",
    steps: { reused: 0, rebuilt: 3 },
    ...none,
  });
});

it("lists the sets that follow the name, not those that name a version", () => {
  const set = (reference: string) =>
    SandboxSet.parse({
      apiVersion: sandboxKind.apiVersion,
      kind: "SandboxSet",
      metadata: {
        name: "pool",
        namespace: "t",
        uid: "u",
        resourceVersion: "1",
        creationTimestamp: "2026-01-01T00:00:00Z",
      },
      spec: { replicas: 1, template: { metadata: { annotations: { "ramet.dev/restore-from": reference } }, spec: {} } },
    });
  expect(["data", "data@1", "data2"].map((reference) => followsSnapshot(set(reference), "data"))).toEqual([
    true,
    false,
    false,
  ]);
  expect(reviewHeadings).toContain("| Pools that follow the name |");
});

it("says that a kept version becomes current again, and when clones could not be listed", () => {
  const found = built(steps(1));
  const status = { ...found.status, version: 2, digest: `sha256:${"f".repeat(64)}` };
  const review = reviewSnapshot(facts(steps(1), { found: { ...found, status }, sandboxes: undefined }));
  expect([review.effect, review.steps]).toEqual(["version 1 becomes current again", undefined]);
  expect(reviewRow(reviewSnapshot(facts(steps(2), { sandboxes: undefined })))).toMatch(/\| unknown \|\n$/);
});

it("prints a table in which no name or command is markup, a link, a mention or another cell", () => {
  const hostile = "id | `x` </code><img src=x> @team #1 [a](https://a.b) www.a.b _a_ *b* \n| --- |\u202e\u0007 & &lt;";
  const row = reviewRow(reviewSnapshot(facts([{ run: hostile }], { name: "a|b`<i>" })));
  const cells = (text: string) => text.trimEnd().split("|").length;
  expect(cells(row)).toBe(cells(reviewHeadings.split("\n")[0] ?? ""));
  expect(row.match(/\n/g)).toHaveLength(1);
  expect(row.replace(/<\/?code>/g, "").replace(/&#\d+;/g, "")).toMatch(/^[A-Za-z0-9 |,.-]*\n$/);
});
