import type { CapturedFiles } from "./captured-files.ts";
import type { FilesPoint } from "./files.ts";
import type { InstallTime } from "./installs.ts";
import { aligned } from "./report.ts";

export function filesTable(points: readonly FilesPoint[]): string {
  const ms = (value: number): string => value.toFixed(0);
  const rows = points.map(({ filesMiB, newPodMilliseconds, warmMilliseconds, pssMiB, storedMiB }) => [
    `${filesMiB} MiB of files`,
    ...[newPodMilliseconds.p50, newPodMilliseconds.p95, warmMilliseconds.p50, warmMilliseconds.p95].map(ms),
    ...[pssMiB, storedMiB].map((value) => value.toFixed(1)),
  ]);
  const atOnce = points.at(-1)?.atOnce;
  return [
    `files: clones of a version on a layer, ms, with 50 MiB of memory; n = ${points[0]?.newPodMilliseconds.n ?? 0}`,
    ...aligned([["", "new Pod p50", "p95", "warm p50", "p95", "PSS MiB", "stored MiB"], ...rows]),
    ...(atOnce
      ? [
          `${atOnce.clones} clones of the last at the same time: ${ms(atOnce.allMilliseconds)} ms, ${atOnce.pssMiB.toFixed(1)} MiB each (PSS)`,
        ]
      : []),
  ].join("\n");
}

export function capturedTable(points: readonly CapturedFiles[]): string {
  const rows = points.map((point) => [
    `${point.contents}, ${point.filesMiB} MiB`,
    ...[point.pausedMilliseconds, point.secondPausedMilliseconds].flatMap(({ p50, p95 }) => [
      p50.toFixed(0),
      p95.toFixed(0),
    ]),
    point.addedMiB.toFixed(1),
    point.secondAddedMiB.toFixed(1),
  ]);
  return [
    `captured files: pauses of a running sandbox with 50 MiB of memory, ms; the second after one file in twenty has changed; n = ${points[0]?.pausedMilliseconds.n ?? 0}`,
    ...aligned([["", "paused p50", "p95", "second p50", "p95", "added MiB", "second added MiB"], ...rows]),
  ].join("\n");
}

export function installsTable(times: readonly InstallTime[]): string {
  const inMemory = new Map(
    times.filter(({ place }) => place === "memory").map(({ install, seconds }) => [install, seconds.p50]),
  );
  const rows = times.map(({ install, place, mebibytes, files, seconds }) => [
    install,
    place,
    `${mebibytes}`,
    `${files}`,
    seconds.p50.toFixed(1),
    seconds.max.toFixed(1),
    (seconds.p50 / (inMemory.get(install) ?? NaN)).toFixed(2),
  ]);
  return [
    `installs: seconds in a sandbox with two CPUs; n = ${times[0]?.seconds.n ?? 0}`,
    ...aligned([["", "files on", "MiB", "files", "p50", "max", "÷ memory"], ...rows]),
  ].join("\n");
}
