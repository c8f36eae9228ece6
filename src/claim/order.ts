import { annotations, labels } from "../api/names/labels.ts";
import type { Sandbox } from "../api/kinds/sandbox.ts";

/**
 * The order in which candidates are tried. Those of the set's newest revision first, and of them those of the highest
 * priority; equals are a ring, walked from a place that `start` gives, so that claimers who know nothing of each other seldom
 * meet.
 * @param start from 0 to below 1
 */
export function orderCandidates(
  candidates: readonly Sandbox[],
  newestRevision: string | undefined,
  start: number,
): Sandbox[] {
  const groups = Map.groupBy(candidates, (sandbox) => rank(sandbox, newestRevision));
  return [...groups.entries()]
    .toSorted(([a], [b]) => b - a)
    .flatMap(([, equals]) => {
      const first = Math.floor(start * equals.length);
      return [...equals.slice(first), ...equals.slice(0, first)];
    });
}

/** Higher goes first. Any priority that an int32 holds stays below what the revision counts. */
function rank({ metadata }: Sandbox, newestRevision: string | undefined): number {
  const isNewest = newestRevision !== undefined && metadata.labels?.[labels.templateHash] === newestRevision;
  const priority = Number(metadata.annotations?.[annotations.sandboxPriority] ?? 0);
  return (
    (isNewest ? 2 ** 33 : 0) + (Number.isInteger(priority) ? Math.max(-(2 ** 31), Math.min(priority, 2 ** 31)) : 0)
  );
}
