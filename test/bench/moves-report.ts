import type { Moves } from "./moves.ts";
import { aligned } from "./report.ts";

export function movesTable({ downtimes, drain, scheduled, controllersCpuSeconds }: Moves): string {
  const rows = [
    ["from the last answer before an eviction to the first one after it, s", "n", "p50", "p95", "max"],
    ...downtimes.map(({ sizeMiB, milliseconds: { n, ...times } }) => [
      sizeMiB === 0 ? "small process" : `${sizeMiB} MiB touched`,
      `${n}`,
      ...[times.p50, times.p95, times.max].map((value) => (value / 1000).toFixed(2)),
    ]),
  ];
  const { sandboxes, podsGoneSeconds, answeringSeconds } = drain;
  const costs = scheduled.map(({ program, checkpoints, addedMiB, cpuSeconds, cpuSecondsWithout }) => [
    program,
    `${checkpoints}`,
    ...[addedMiB, cpuSeconds, cpuSecondsWithout].map((value) => value.toFixed(2)),
  ]);
  return [
    "moves, real sandboxes; the next Pod is on the same node, the store is a directory",
    ...aligned(rows),
    ...aligned([
      [`${sandboxes} small sandboxes evicted at once, s`, ""],
      ["until their Pods have gone", podsGoneSeconds.toFixed(1)],
      ["until all answer again", answeringSeconds.toFixed(1)],
    ]),
    ...aligned([
      ["checkpoint-every: 1m", "taken", "MiB added", "CPU s of its cell and gVisor", "without checkpoints"],
      ...costs,
      ["controllers, of all these", "", "", controllersCpuSeconds.toFixed(2), ""],
    ]),
  ].join("\n");
}
