import type { RecipeBuild } from "./recipe.ts";
import { aligned } from "./report.ts";

export function recipeTable(builds: readonly RecipeBuild[]): string {
  const head = ["changed", "steps from the cache", "p50, s", "max, s", "writes", "reconciles"];
  const seconds = (milliseconds: number | undefined): string =>
    milliseconds === undefined ? "no work" : (milliseconds / 1000).toFixed(2);
  const rows = builds.map(({ change, cachedSteps, milliseconds, writes, reconciles }) => [
    change,
    `${cachedSteps}`,
    seconds(milliseconds?.p50),
    milliseconds === undefined ? "" : seconds(milliseconds.max),
    writes.toFixed(1),
    reconciles.toFixed(1),
  ]);
  return [
    `a recipe of ten short steps, each captured with memory, ${builds[0]?.n ?? 0} times; writes and reconciles per build`,
    ...aligned([head, ...rows]),
  ].join("\n");
}
