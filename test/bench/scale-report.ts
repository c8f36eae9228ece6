import { aligned } from "./report.ts";
import type { ScalePoint } from "./scale.ts";

export function scaleTable(points: readonly ScalePoint[]): string {
  const starts = [
    [
      "Sandboxes",
      "Pods",
      "Checkpoints",
      "templates",
      "synced, s",
      "settled, s",
      "CPU-seconds",
      "RSS, MiB",
      "peak, MiB",
    ],
    ...points.map(({ objects, ...rest }) => [
      ...[objects.sandboxes, objects.pods, objects.checkpoints, objects.templates].map(String),
      rest.syncedSeconds.toFixed(2),
      rest.settledSeconds.toFixed(2),
      rest.cpuSeconds.toFixed(2),
      rest.residentMiB.toFixed(0),
      rest.peakMiB.toFixed(0),
    ]),
  ];
  const lag = [
    ["Sandboxes, change → seen, ms", "n", "p50", "p95", "p99", "max"],
    ...points.flatMap(({ objects, lag: lags }) =>
      lags.map(({ change, milliseconds: { n, p50, p95, p99, max } }) => [
        `${objects.sandboxes}, ${change}`,
        `${n}`,
        ...[p50, p95, p99, max].map((value) => value.toFixed(1)),
      ]),
    ),
  ];
  return [
    "scale: starts of the controller with SIMULATED finished objects, and its reconcile lag after that",
    ...aligned(starts),
    ...points.map(requestsLine),
    ...aligned(lag),
  ].join("\n");
}

function requestsLine({ objects, reconciles, requests }: ScalePoint): string {
  const each = Object.entries(requests).map(([name, count]) => `${count} ${name}`);
  const all = Object.values(requests).reduce((sum, count) => sum + count, 0);
  return `  start with ${objects.sandboxes}: ${reconciles} reconciles, ${all} API requests: ${each.join(", ")}`;
}
