import type { FloodFigure } from "./floods.ts";
import { aligned } from "./report.ts";

/**
 * The honest clients of a server must keep this share of their requests for each second of its CPU time. The share for each
 * second also depends on the CPU time that the sender of the flood takes from the server on this machine.
 */
const required = 0.8;
/** MiB that a server may take above its memory before the floods. */
const mostGrowth = 256;
const slowestHealthMilliseconds = 1_000;

export function floodsTable(figures: readonly FloodFigure[]): string {
  const head = [
    "server",
    "flood",
    "attacks/s",
    "normal",
    "flooded",
    "ratio",
    "per CPU time",
    "failed",
    "rest MiB",
    "peak MiB",
    "slowest health ms",
    "",
  ];
  const rows = figures.map((figure) => [
    figure.server,
    figure.flood,
    ...[figure.attacksPerSecond, figure.normalPerSecond, figure.floodedPerSecond].map((value) => value.toFixed(0)),
    ...[figure.ratio, figure.cpuRatio].map((value) => value.toFixed(2)),
    String(figure.failed),
    ...[figure.restMebibytes, figure.peakMebibytes, figure.slowestHealthMilliseconds].map((value) => value.toFixed(0)),
    isMet(figure) ? "met" : "MISSED",
  ]);
  return [
    `requests per second of honest clients of a server during a flood (required per CPU time: ≥ ${required})`,
    ...aligned([head, ...rows]),
  ].join("\n");
}

function isMet({ cpuRatio, restMebibytes, peakMebibytes, slowestHealthMilliseconds: slowest }: FloodFigure): boolean {
  return cpuRatio >= required && peakMebibytes - restMebibytes < mostGrowth && slowest < slowestHealthMilliseconds;
}
