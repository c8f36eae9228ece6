import type { Figure } from "./figure.ts";
import type { Machine } from "./machine.ts";
import type { Summary } from "./samples.ts";

export function machineLines(machine: Machine): string {
  const { cores, cpu, memoryGiB, kernel, gvisor, kvm, user, hugePages, node, loadAtStart } = machine;
  return [
    `machine  ${cores} × ${cpu}, ${memoryGiB} GiB, kernel ${kernel}, ${kvm ? "KVM" : "no KVM"}, ${user} user`,
    `gVisor   ${gvisor} (platform systrap); Node ${node}`,
    `pages    shmem_enabled=${hugePages.shmemEnabled} defrag=${hugePages.defrag}; load ${loadAtStart} at the start`,
  ].join("\n");
}

/** The figure as a table: milliseconds (CPU time in seconds), the ratios to bare `runsc`, and what was asked for. */
export function figureTable(figure: Figure): string {
  const size = figure.sizeMiB === 0 ? "small process" : `${figure.sizeMiB} MiB touched`;
  const pages = figure.hugePages ? ", huge pages" : "";
  const rows = [
    ["", "n", "p50", "p95", "p99", "max"],
    ...(["ramet", "bare"] as const).flatMap((side) =>
      [...figure[side].values.keys()].map((name) => row(`${side}: ${name}`, figure[side].summary(name))),
    ),
  ];
  const title = `${figure.name} (${figure.level} level, ${size}${pages})`;
  return [title, ...aligned(rows), ...ratioLines(figure), ...goalLines(figure)].join("\n");
}

function row(name: string, summary: Summary | undefined): string[] {
  if (summary === undefined) return [name, "0"];
  const text = (value: number): string => (value < 10 ? value.toFixed(3) : value.toFixed(1));
  return [name, `${summary.n}`, text(summary.p50), text(summary.p95), text(summary.p99), text(summary.max)];
}

function aligned(rows: string[][]): string[] {
  const widths = [0, 1, 2, 3, 4, 5].map((column) => Math.max(...rows.map((cells) => cells[column]?.length ?? 0)));
  return rows.map(
    (cells) =>
      `  ${cells.map((cell, i) => (i === 0 ? cell.padEnd(widths[i] ?? 0) : cell.padStart(widths[i] ?? 0))).join("  ")}`,
  );
}

/** Of medians: a ratio of worst cases would be one of two accidents. */
function ratioLines(figure: Figure): string[] {
  return figure.ratios.flatMap(({ ramet, bare, limit }) => {
    const ours = figure.ramet.summary(ramet)?.p50;
    const theirs = figure.bare.summary(bare)?.p50;
    if (ours === undefined || theirs === undefined) return [];
    const ratio = ours / theirs;
    const verdict = limit === undefined ? "" : ` (asked: ≤ ${limit}; ${ratio <= limit ? "met" : "MISSED"})`;
    return [`  ratio  ${ramet} ÷ bare ${bare} = ${ratio.toFixed(2)}${verdict}`];
  });
}

function goalLines(figure: Figure): string[] {
  return Object.entries(figure.goals).flatMap(([name, goal]) => {
    const p50 = figure.ramet.summary(name)?.p50;
    if (p50 === undefined) return [];
    return [`  goal   ${name} p50 ${p50.toFixed(0)} ms (asked: ≤ ${goal}; ${p50 <= goal ? "met" : "MISSED"})`];
  });
}
