import type { ClaimRun } from "./claims-one-by-one.ts";
import { aligned } from "./report.ts";
import type { Upgrade } from "./upgrade.ts";

export function upgradeTable({ snapshots, replicas, builtSeconds, seconds, claims }: Upgrade): string {
  const steps = [
    ["from the end of the earlier controllers, s", ""],
    ["the new controllers work", seconds.controllers.toFixed(1)],
    ["the first named snapshot is captured again", seconds.first.toFixed(1)],
    ["half of them", seconds.half.toFixed(1)],
    ["all of them", seconds.last.toFixed(1)],
    [`the set of ${replicas} has only new sandboxes`, seconds.set.toFixed(1)],
    ["before the upgrade: building all of them", builtSeconds.toFixed(1)],
  ];
  const runs = [
    ["claims until an HTTP response, ms", "n", "failed", "p50", "p95", "max"],
    claimRow("before the upgrade", claims.before),
    claimRow("during the upgrade", claims.during),
  ];
  const { failed } = claims.during;
  const ratio = (seconds.last / builtSeconds).toFixed(2);
  return [
    `upgrade of ${snapshots} named snapshots and a set, real sandboxes`,
    ...aligned(steps),
    ...aligned(runs),
    `  ratio  captured again ÷ built before = ${ratio}`,
    `  goal   ${failed.length} claims failed (required: 0; ${failed.length === 0 ? "met" : "MISSED"})`,
    ...failed.map((why) => `  failed ${why}`),
  ].join("\n");
}

function claimRow(name: string, { n, failed, milliseconds }: ClaimRun): string[] {
  const { p50, p95, max } = milliseconds ?? { p50: NaN, p95: NaN, max: NaN };
  return [name, `${n}`, `${failed.length}`, ...[p50, p95, max].map((value) => value.toFixed(0))];
}
