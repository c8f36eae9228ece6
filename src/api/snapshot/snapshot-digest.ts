import { digestOf } from "../cell/template-digest.ts";
import type { CopiedContent, ResolvedSource, SnapshotInputs } from "./snapshot-inputs.ts";
import type { RecipeStep } from "../recipe/recipe.ts";

export interface SnapshotDigest {
  /** Of everything: names a version. */
  digest: string;
  /** Of what the first step begins with. */
  base: string;
  /** One for each step: of it, of all before it and of the base. The same digest is the same state. */
  steps: string[];
}

/**
 * The digest of a named snapshot's inputs. A pure function: equal on every machine, whatever the order of keys, and
 * different as soon as any input is.
 */
export function snapshotDigest({ from, recipe, copied, contents }: SnapshotInputs): SnapshotDigest {
  const base = digestOf({ v: 1, from: plainSource(from) });
  const steps: string[] = [];
  for (const [index, step] of recipe.entries()) {
    steps.push(digestOf({ v: 1, after: steps.at(-1) ?? base, step: plainStep(step, copied.get(index)) }));
  }
  return { digest: digestOf({ v: 1, after: steps.at(-1) ?? base, contents: [...contents].sort() }), base, steps };
}

/**
 * How many of the steps keep their state: a build runs those after it. What `rebuilds from step 3 of 4` says is this
 * and 1.
 * @param before digests of the steps of an earlier build
 */
export function unchangedSteps(before: readonly string[], after: readonly string[]): number {
  const first = after.findIndex((digest, index) => digest !== before[index]);
  return first < 0 ? after.length : first;
}

/** What generators write for "not there" is not there. */
function plainSource(from: ResolvedSource): unknown {
  return withoutNulls(from);
}

function plainStep(step: RecipeStep, copied: CopiedContent | undefined): unknown {
  return withoutNulls({ ...step, ...(copied !== undefined && { copied }) });
}

function withoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutNulls);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).flatMap(([key, inner]) => (inner === null ? [] : [[key, withoutNulls(inner)]])),
  );
}
