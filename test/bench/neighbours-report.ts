import type { NeighbourFigure } from "./neighbours.ts";
import { aligned } from "./report.ts";

/** A neighbour must keep this share of its requests per second. */
const required = 0.8;

export function neighboursTable(figures: readonly NeighbourFigure[]): string {
  const head = ["bomb", "normal/s", "beside/s", "ratio", "per CPU time", "p95 ms", "beside", "failed", "survived", ""];
  const rows = figures.map((figure) => [
    figure.bomb,
    ...[figure.normalPerSecond, figure.besidePerSecond].map((value) => value.toFixed(0)),
    ...[figure.ratio, figure.cpuRatio].map((value) => value.toFixed(2)),
    ...[figure.normalP95, figure.besideP95].map((value) => value.toFixed(1)),
    String(figure.failed),
    `${figure.survived}/${figure.windows}`,
    figure.ratio >= required ? "met" : "MISSED",
  ]);
  return [
    `requests per second of a sandbox while a bomb runs in another one with limits (required: ≥ ${required} of normal)`,
    ...aligned([head, ...rows]),
  ].join("\n");
}
