import type { PoolFill } from "./pool.ts";
import { aligned } from "./report.ts";

/** The goals for a set of 300. */
const goal = { replicas: 300, seconds: 8 };

export function poolTable(fills: readonly PoolFill[]): string {
  const head = ["sandboxes", "all Ready, s", "requests", "writes", "reconciles", "CPU-seconds", "controller RSS, MiB"];
  const rows = fills.map((fill) => [
    `${fill.replicas}`,
    fill.seconds.toFixed(2),
    fill.requests.toFixed(2),
    fill.writes.toFixed(2),
    fill.reconciles.toFixed(2),
    fill.cpuSeconds.toFixed(2),
    fill.residentMiB.toFixed(0),
  ]);
  const goals = fills
    .filter(({ replicas }) => replicas === goal.replicas)
    .map(({ seconds }) => {
      const verdict = seconds <= goal.seconds ? "met" : "MISSED";
      return `  goal   ${goal.replicas} in ${seconds.toFixed(1)} s (required: ≤ ${goal.seconds}; ${verdict})`;
    });
  return [
    "filling a set with SIMULATED cells; requests, writes and reconciles of the controller per sandbox",
    ...aligned([head, ...rows]),
    ...goals,
  ].join("\n");
}
