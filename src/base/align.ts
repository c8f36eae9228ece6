import { canonicalJson } from "./canonical-json.ts";

/** How a list becomes another one: the indexes that differ, of the list that has them. */
export interface Alignment {
  /** At the same index of both lists, an element was replaced by another one. */
  changed: number[];
  /** Indexes of the old list. */
  removed: number[];
  /** Indexes of the new list. */
  added: number[];
}

/** Aligns two lists by their longest common subsequence, so that an inserted element does not change those after it. */
export function align(before: readonly unknown[], after: readonly unknown[]): Alignment {
  const [old, now] = [before.map(textOf), after.map(textOf)];
  const lengths = commonLengths(old, now);
  const [gone, come] = [new Set<number>(), new Set<number>()];
  for (let i = 0, j = 0; i < old.length || j < now.length;) {
    if (i < old.length && j < now.length && old[i] === now[j]) [i, j] = [i + 1, j + 1];
    else if (j === now.length || (i < old.length && at(lengths, i + 1, j) >= at(lengths, i, j + 1))) gone.add(i++);
    else come.add(j++);
  }
  const changed = [...gone].filter((index) => come.has(index));
  return {
    changed,
    removed: [...gone].filter((index) => !come.has(index)),
    added: [...come].filter((index) => !gone.has(index)),
  };
}

/** The differences in the order of their indexes, of which no two are equal. */
export function inOrder(alignment: Alignment): { index: number; kind: keyof Alignment }[] {
  const kinds = ["changed", "removed", "added"] as const;
  const all = kinds.flatMap((kind) => alignment[kind].map((index) => ({ index, kind })));
  return all.toSorted((a, b) => a.index - b.index);
}

/** The lengths of the longest common subsequences of the ends of both lists. */
function commonLengths(old: readonly string[], now: readonly string[]): number[][] {
  const lengths = Array.from({ length: old.length + 1 }, () => Array<number>(now.length + 1).fill(0));
  for (let i = old.length - 1; i >= 0; i--) {
    for (let j = now.length - 1; j >= 0; j--) {
      const longest = Math.max(at(lengths, i + 1, j), at(lengths, i, j + 1));
      (lengths[i] ?? [])[j] = old[i] === now[j] ? at(lengths, i + 1, j + 1) + 1 : longest;
    }
  }
  return lengths;
}

function at(lengths: readonly (readonly number[])[], i: number, j: number): number {
  return lengths[i]?.[j] ?? 0;
}

function textOf(value: unknown): string {
  return canonicalJson(value ?? null);
}
