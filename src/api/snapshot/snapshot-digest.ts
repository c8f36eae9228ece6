import { digestOf } from "../schema/digest.ts";
import { allVolumes } from "../kinds/sandbox-parts.ts";
import type { CopiedContent, ResolvedSource, SnapshotInputs } from "./snapshot-inputs.ts";
import type { RecipeStep } from "../recipe/recipe.ts";

export interface SnapshotDigest {
  /** Digest of all inputs; identifies a version. */
  digest: string;
  /** Digest of the state before the first step. */
  base: string;
  /** One digest per step, of the step, all steps before it and the base. Equal digests mean equal states. */
  steps: string[];
}

/**
 * The digest of the inputs of a named snapshot. A pure function: independent of the machine and the order of keys, and different
 * for any other input.
 */
export function snapshotDigest({ from, recipe, copied, contents, volumes }: SnapshotInputs): SnapshotDigest {
  // A step that was captured without the volumes cannot be continued with them.
  const isAll = volumes?.includes(allVolumes) ?? true;
  const withVolumes = contents.includes("volumes") && { volumes: isAll || [...new Set(volumes)].sort() };
  const base = digestOf({ v: 1, from: plainSource(from), ...withVolumes });
  const steps: string[] = [];
  for (const [index, step] of recipe.entries()) {
    steps.push(digestOf({ v: 1, after: steps.at(-1) ?? base, step: plainStep(step, copied.get(index)) }));
  }
  return { digest: digestOf({ v: 1, after: steps.at(-1) ?? base, contents: [...contents].sort() }), base, steps };
}

/**
 * The number of leading steps with an unchanged state. A build runs the steps after them.
 * @param before digests of the steps of an earlier build
 */
export function unchangedSteps(before: readonly string[], after: readonly string[]): number {
  const first = after.findIndex((digest, index) => digest !== before[index]);
  return first < 0 ? after.length : first;
}

/** Generators write null for absent fields. */
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
