import type { ExplainPoint } from "./explain.ts";
import { aligned } from "./report.ts";

/** The goal for each command. */
const goalMilliseconds = 2_000;

export function explainTable(points: readonly ExplainPoint[]): string {
  return points
    .flatMap(({ objects: { sandboxes, checkpoints, members }, commands }) => [
      `explain: ${sandboxes + members} Sandboxes, ${members} of them in a set, and ${checkpoints} Checkpoints, all SIMULATED; ms`,
      ...aligned([
        ["ramet", "n", "p50", "p95", "max", "÷ first", ""],
        ...commands.map(({ command, milliseconds: { n, p50, p95, max } }) => [
          command,
          `${n}`,
          ...[p50, p95, max].map((value) => value.toFixed(0)),
          (p50 / (commands[0]?.milliseconds.p50 ?? p50)).toFixed(2),
          `p95 ≤ ${goalMilliseconds}: ${p95 <= goalMilliseconds ? "met" : "MISSED"}`,
        ]),
      ]),
    ])
    .join("\n");
}
