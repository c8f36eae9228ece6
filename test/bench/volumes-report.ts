import { aligned } from "./report.ts";
import type { Summary } from "./samples.ts";
import type { VolumeCosts } from "./volumes.ts";

export function volumesTable({ clones, atomic, together }: VolumeCosts): string {
  const shown = ({ p50, max }: Summary): string => `${p50.toFixed(0)} (${max.toFixed(0)})`;
  const rows = [
    ["volume", "capture", "clone", "cp -a", "clone ÷ cp"],
    ...clones.map(({ what, captureMilliseconds, cloneMilliseconds, copyMilliseconds }) => [
      what,
      shown(captureMilliseconds),
      shown(cloneMilliseconds),
      shown(copyMilliseconds),
      (cloneMilliseconds.p50 / copyMilliseconds.p50).toFixed(2),
    ]),
  ];
  const { rounds, violations, pausedMilliseconds, captureMilliseconds } = atomic;
  const { snapshots, milliseconds } = together;
  return [
    "volumes: captured alone and cloned into a new Pod, ms, p50 (max)",
    ...aligned(rows),
    `  atomic captures of a program that writes at full speed: ${rounds} rounds, ${violations} violations`,
    `    paused ${shown(pausedMilliseconds)} ms, until the checkpoint has succeeded ${shown(captureMilliseconds)} ms`,
    `  ${snapshots} volumes at once: ${(milliseconds / 1000).toFixed(1)} s until all can be restored`,
  ].join("\n");
}
