import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { annotations, labels } from "../../api/names/labels.ts";
import { garbageOf, type CollectionState, type Garbage } from "./garbage.ts";
import type { References } from "./references.ts";

/**
 * Where the captured steps of a namespace take more than the budget, those that no recipe has go, the longest unneeded
 * first, until the rest fits. Those of present recipes count and stay.
 */
export function unneededStepCaches(state: CollectionState, references: References): Garbage[] {
  const caches = state.checkpoints.filter(isStepCache);
  const byNamespace = Map.groupBy(caches, ({ metadata }) => metadata.namespace);
  return [...byNamespace.values()].flatMap((own) => {
    let over = own.reduce((sum, cache) => sum + bytesOf(cache), -state.stepCacheBytes);
    const candidates = own.filter((cache) => !references.hasCheckpoint(cache)).toSorted(longestUnneededFirst);
    return candidates.flatMap((cache) => {
      // One of no size would free nothing.
      if (over <= 0 || bytesOf(cache) === 0) return [];
      over -= bytesOf(cache);
      const why = `captured after a step that no recipe has since ${lastNeededAt(cache)}, and beyond the budget`;
      return [garbageOf(cache, { garbage: "StepCache", kind: "Checkpoint", why })];
    });
  });
}

/** Until when a recipe is known to have had the step; of one that never was in a finished build, when it was captured. */
export function lastNeededAt({ metadata, status }: Checkpoint): string {
  return metadata.annotations?.[annotations.unneededSince] ?? status?.completionTime ?? metadata.creationTimestamp;
}

function isStepCache({ metadata, status }: Checkpoint): boolean {
  const isGoing = metadata.deletionTimestamp !== undefined;
  return metadata.labels?.[labels.purpose] === "step" && status?.phase === "Succeeded" && !isGoing;
}

function longestUnneededFirst(a: Checkpoint, b: Checkpoint): number {
  const [first, second] = [Date.parse(lastNeededAt(a)), Date.parse(lastNeededAt(b))];
  return first - second || a.metadata.name.localeCompare(b.metadata.name);
}

function bytesOf({ status }: Checkpoint): number {
  return status?.ramet?.sizeBytes ?? 0;
}
