import type { Memory } from "./memory.ts";
import type { Figure } from "./figure.ts";
import type { GrowthPoint } from "./growth.ts";
import type { Machine } from "./machine.ts";
import type { Summary } from "./samples.ts";
import type { Writes } from "./writes.ts";

export function machineLines(machine: Machine): string {
  const { cores, cpu, memoryGiB, kernel, gvisor, kvm, user, hugePages, node, loadAtStart } = machine;
  return [
    `machine  ${cores} × ${cpu}, ${memoryGiB} GiB, kernel ${kernel}, ${kvm ? "KVM" : "no KVM"}, ${user} user`,
    `gVisor   ${gvisor} (platform systrap); Node ${node}`,
    `pages    shmem_enabled=${hugePages.shmemEnabled} defrag=${hugePages.defrag}; load ${loadAtStart} at the start`,
  ].join("\n");
}

/** The figure as a table: milliseconds (CPU time in seconds), the ratios to bare `runsc`, and the goals. */
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

/** Aligned columns. The first one starts the line. */
export function aligned(rows: string[][]): string[] {
  const columns = Math.max(...rows.map((cells) => cells.length));
  const widths = Array.from({ length: columns }, (_, column) =>
    Math.max(...rows.map((cells) => cells[column]?.length ?? 0)),
  );
  return rows.map(
    (cells) =>
      `  ${cells.map((cell, i) => (i === 0 ? cell.padEnd(widths[i] ?? 0) : cell.padStart(widths[i] ?? 0))).join("  ")}`,
  );
}

/** A ratio of medians: the worst cases are accidental. */
function ratioLines(figure: Figure): string[] {
  return figure.ratios.flatMap(({ ramet, bare, limit }) => {
    const ours = figure.ramet.summary(ramet)?.p50;
    const theirs = figure.bare.summary(bare)?.p50;
    if (ours === undefined || theirs === undefined) return [];
    const ratio = ours / theirs;
    const verdict = limit === undefined ? "" : ` (required: ≤ ${limit}; ${ratio <= limit ? "met" : "MISSED"})`;
    return [`  ratio  ${ramet} ÷ bare ${bare} = ${ratio.toFixed(2)}${verdict}`];
  });
}

function goalLines(figure: Figure): string[] {
  return Object.entries(figure.goals).flatMap(([name, goal]) => {
    const p50 = figure.ramet.summary(name)?.p50;
    if (p50 === undefined) return [];
    return [`  goal   ${name} p50 ${p50.toFixed(0)} ms (required: ≤ ${goal}; ${p50 <= goal ? "met" : "MISSED"})`];
  });
}

export function writesTable(all: readonly Writes[]): string {
  return all
    .flatMap(({ request, n, writes, reconciles }) => [
      `${request}: per request, over ${n}; ${sum(writes).toFixed(1)} writes, ${sum(reconciles).toFixed(1)} reconciles`,
      ...aligned(
        Object.entries({ ...writes, ...prefixed("reconcile ", reconciles) }).map(([name, value]) => [
          name,
          value.toFixed(2),
        ]),
      ),
    ])
    .join("\n");
}

function verdict(what: "rss" | "pss", isMiB: number, goalMiB: number): string {
  return `${what} ≤ ${goalMiB}: ${isMiB <= goalMiB ? "met" : "MISSED"}`;
}

export function memoryTable(all: readonly Memory[]): string {
  const rows = all.map(({ what, processes, rssMiB, pssMiB, goalMiB }) => [
    what,
    `${processes}`,
    rssMiB.toFixed(1),
    pssMiB.toFixed(1),
    goalMiB === undefined ? "" : [verdict("rss", rssMiB, goalMiB), verdict("pss", pssMiB, goalMiB)].join(", "),
  ]);
  return ["memory at rest, MiB", ...aligned([["", "processes", "rss", "pss", "goal"], ...rows])].join("\n");
}

export function growthTable(points: readonly GrowthPoint[]): string {
  const rows = points.map(({ round, memoryMiB, openFiles, left }) => [
    `${round}`,
    memoryMiB.controller.toFixed(1),
    memoryMiB.node.toFixed(1),
    `${openFiles.controller}`,
    `${openFiles.node}`,
    `${left.processes}`,
    `${left.mounts}`,
    `${left.networkNamespaces}`,
    `${left.files}`,
  ]);
  const head = [
    "round",
    "controller MiB",
    "node MiB",
    "controller's fds",
    "node's fds",
    "processes",
    "mounts",
    "netns",
    "files",
  ];
  return ["growth over rounds of create, checkpoint, clone, delete", ...aligned([head, ...rows])].join("\n");
}

function sum(values: Record<string, number>): number {
  return Object.values(values).reduce((total, value) => total + value, 0);
}

function prefixed(prefix: string, values: Record<string, number>): Record<string, number> {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [`${prefix}${name}`, value]));
}
