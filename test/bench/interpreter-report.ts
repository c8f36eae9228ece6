import type { InterpreterClones } from "./interpreter.ts";
import { aligned } from "./report.ts";
import type { Summary } from "./samples.ts";

export function interpreterTable(rows: readonly InterpreterClones[]): string {
  const table = rows.flatMap(({ warm, createMilliseconds, runMilliseconds, bothMilliseconds }) => {
    const where = warm ? "in a ready sandbox" : "in a new Pod";
    return [
      row(`create(snapshotId) ${where}`, createMilliseconds),
      row("  first runCode", runMilliseconds),
      row("  both", bothMilliseconds),
    ];
  });
  return [
    `interpreter: clones of a running code interpreter through E2B's JavaScript SDK, ms; n = ${rows[0]?.createMilliseconds.n ?? 0}`,
    ...aligned([["", "p50", "p95", "p99", "max"], ...table]),
  ].join("\n");
}

function row(name: string, { p50, p95, p99, max }: Summary): string[] {
  return [name, ...[p50, p95, p99, max].map((value) => value.toFixed(0))];
}
