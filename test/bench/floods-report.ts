import type { FloodFigure } from "./floods.ts";
import { aligned } from "./report.ts";

/**
 * The honest clients of a gateway must keep this share of their requests for each second of its CPU time. The share for each
 * second also depends on the CPU time that the sender of the flood takes from the gateway on this machine.
 */
const required = 0.8;

export function floodsTable(figures: readonly FloodFigure[]): string {
  const head = ["flood", "attacks/s", "normal", "flooded", "ratio", "per CPU time", "failed", ""];
  const rows = figures.map(
    ({ flood, attacksPerSecond, normalPerSecond, floodedPerSecond, ratio, cpuRatio, failed }) => [
      flood,
      ...[attacksPerSecond, normalPerSecond, floodedPerSecond].map((value) => value.toFixed(0)),
      ...[ratio, cpuRatio].map((value) => value.toFixed(2)),
      String(failed),
      cpuRatio >= required ? "met" : "MISSED",
    ],
  );
  return [
    `requests per second of honest clients of a gateway during a flood (required per CPU time: ≥ ${required})`,
    ...aligned([head, ...rows]),
  ].join("\n");
}
