import type { FilesPoint } from "./files.ts";
import { aligned } from "./report.ts";

export function filesTable(points: readonly FilesPoint[]): string {
  const ms = (value: number): string => value.toFixed(0);
  const rows = points.map(({ filesMiB, newPodMilliseconds, warmMilliseconds, pssMiB, storedMiB }) => [
    `${filesMiB} MiB of files`,
    ...[newPodMilliseconds.p50, newPodMilliseconds.p95, warmMilliseconds.p50, warmMilliseconds.p95].map(ms),
    ...[pssMiB, storedMiB].map((value) => value.toFixed(1)),
  ]);
  const atOnce = points.at(-1)?.atOnce;
  return [
    `files: clones of a version on a layer, ms, with 50 MiB of memory; n = ${points[0]?.newPodMilliseconds.n ?? 0}`,
    ...aligned([["", "new Pod p50", "p95", "warm p50", "p95", "PSS MiB", "stored MiB"], ...rows]),
    ...(atOnce
      ? [
          `${atOnce.clones} clones of the last at the same time: ${ms(atOnce.allMilliseconds)} ms, ${atOnce.pssMiB.toFixed(1)} MiB each (PSS)`,
        ]
      : []),
  ].join("\n");
}
