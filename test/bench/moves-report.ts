import type { Moves } from "./moves.ts";
import { aligned } from "./report.ts";

export function movesTable({ downtimes, drain, scheduled }: Moves): string {
  const rows = [
    ["from the last answer before an eviction to the first one after it, s", "n", "p50", "p95", "max"],
    ...downtimes.map(({ sizeMiB, milliseconds: { n, ...times } }) => [
      sizeMiB === 0 ? "small process" : `${sizeMiB} MiB touched`,
      `${n}`,
      ...[times.p50, times.p95, times.max].map((value) => (value / 1000).toFixed(2)),
    ]),
  ];
  const { sandboxes, podsGoneSeconds, answeringSeconds } = drain;
  const costs = scheduled.map(({ program, checkpoints, addedMiB }) => [program, `${checkpoints}`, addedMiB.toFixed(2)]);
  return [
    "moves, real sandboxes; the next Pod is on the same node, the store is a directory",
    ...aligned(rows),
    ...aligned([
      [`${sandboxes} small sandboxes evicted at once, s`, ""],
      ["until their Pods have gone", podsGoneSeconds.toFixed(1)],
      ["until all answer again", answeringSeconds.toFixed(1)],
    ]),
    ...aligned([["checkpoint-every: 1m", "taken", "MiB added"], ...costs]),
  ].join("\n");
}
