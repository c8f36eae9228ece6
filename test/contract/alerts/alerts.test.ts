import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { alerts } from "../../../src/install/alerts.ts";
import { rows } from "../../../src/install/dashboard.ts";
import { acquirePinned } from "../../../src/local/tools/acquire-tools.ts";
import { pinnedTestTool } from "../../setup/pinned-tools.ts";

/** Evaluates the alerts and the queries of the dashboard with the engine of Prometheus. */
const { alerts: program } = await acquirePinned(pinnedTestTool, { names: ["alerts"] });

/** Series of an hour with a sample each minute, for which an alert holds and for which it does not. */
const series: Record<keyof typeof alerts, { fires: string; quiet: string }> = {
  RametServerDown: {
    fires: 'up{job="ramet-gateway-metrics", pod="a"} 0x60',
    quiet: 'up{job="ramet-gateway-metrics", pod="a"} 1x60\nup{job="other"} 0x60',
  },
  RametControllerAbsent: { fires: "other 1x60", quiet: 'ramet_queue_depth{controller="sandbox"} 0x60' },
  RametOtherControllers: { fires: "ramet_other_controllers 1x60", quiet: "ramet_other_controllers 0x60" },
  RametReconcilesFail: {
    fires:
      'ramet_reconciles_total{controller="c", result="error"} 0+20x60\nramet_reconciles_total{controller="c", result="success"} 0+80x60',
    quiet:
      'ramet_reconciles_total{controller="c", result="error"} 0+1x60\nramet_reconciles_total{controller="c", result="success"} 0+99x60',
  },
  RametQueueIsSlow: {
    fires:
      'ramet_queue_wait_seconds_bucket{controller="c", le="5"} 0+90x60\nramet_queue_wait_seconds_bucket{controller="c", le="10"} 0+100x60\nramet_queue_wait_seconds_bucket{controller="c", le="+Inf"} 0+100x60',
    quiet:
      'ramet_queue_wait_seconds_bucket{controller="c", le="5"} 0+100x60\nramet_queue_wait_seconds_bucket{controller="c", le="10"} 0+100x60\nramet_queue_wait_seconds_bucket{controller="c", le="+Inf"} 0+100x60',
  },
  RametPoolIsEmpty: { fires: pool(0, 2), quiet: `${pool(0, 0)}\n${pool(1, 2, "other")}` },
  RametPoolIsNotFull: { fires: pool(1, 2), quiet: pool(2, 2) },
  RametClaimsFail: {
    fires: 'ramet_claim_failures_total{code="Timeout"} 0+1x60',
    quiet: 'ramet_claim_failures_total{code="Timeout"} 7x60',
  },
  RametBuildFailed: {
    fires: 'ramet_snapshot_build_seconds_count{result="failed"} 0x50 1x10',
    quiet:
      'ramet_snapshot_build_seconds_count{result="built"} 0+1x60\nramet_snapshot_build_seconds_count{result="failed"} 1x60',
  },
  RametCheckpointDataMissing: {
    fires: "ramet_checkpoints_data_missing 1x60",
    quiet: "ramet_checkpoints_data_missing 0x60",
  },
  RametStoreSweepsFail: {
    fires: 'ramet_store_sweeps_total{result="error"} 0+1x60',
    quiet: 'ramet_store_sweeps_total{result="error"} 0+1x60\nramet_store_sweeps_total{result="success"} 0+1x60',
  },
  RametSandboxesLost: {
    fires: 'ramet_sandbox_disruptions_total{cause="Drain", outcome="Lost"} 0x50 2x10',
    quiet: 'ramet_sandbox_disruptions_total{cause="Drain", outcome="Migrated"} 0+1x60',
  },
  RametCellsNotProven: {
    fires: "ramet_gateway_cells_not_proven_total 0+1x60",
    quiet: "ramet_gateway_cells_not_proven_total 3x60\nramet_cells_not_proven_total 0x60",
  },
  RametGatewayRefuses: {
    fires: 'ramet_gateway_refusals_total{reason="overload"} 0+120x60',
    quiet:
      'ramet_gateway_refusals_total{reason="invalidRequest"} 0+120x60\nramet_gateway_refusals_total{reason="client"} 0+1x60',
  },
  RametClientApiFails: {
    fires:
      'ramet_client_api_requests_total{status="500"} 0+10x60\nramet_client_api_requests_total{status="200"} 0+90x60',
    quiet:
      'ramet_client_api_requests_total{status="404"} 0+90x60\nramet_client_api_requests_total{status="200"} 0+10x60',
  },
  RametApiServerRefuses: {
    fires: 'ramet_api_requests_total{verb="list", resource="pods", status="403"} 0+60x60',
    quiet: 'ramet_api_requests_total{verb="patch", resource="pods", status="409"} 0+60x60',
  },
};

const panels = Object.values(rows)
  .flat()
  .flatMap(([, , queries]) => Object.values(queries))
  .map((expr) => expr.replaceAll("$__rate_interval", "5m"));

it("fires each alert for what it describes, and only then", () => {
  const names = Object.keys(alerts);
  expect(Object.keys(series).sort()).toEqual(names.sort());
  const questions = names.flatMap((name) =>
    [series[name]?.fires, series[name]?.quiet].map((given) => ({
      expr: alerts[name]?.expr,
      series: given,
      minutes: 60,
    })),
  );
  const answers = ask(questions);
  const found = names.map((name, at) => [name, answers[2 * at]?.results, answers[2 * at + 1]?.results]);
  expect(answers.filter(({ error }) => error !== "")).toEqual([]);
  expect(found).toEqual(names.map((name) => [name, 1, 0]));
});

it("has queries on the dashboard that Prometheus evaluates", () => {
  const answers = ask(panels.map((expr) => ({ expr, series: "other 1x60", minutes: 60 })));
  expect(answers).toEqual(panels.map(() => ({ results: 0, error: "" })));
});

it("uses only metrics that the reference describes, which lists all alerts", () => {
  const page = readFileSync(join(import.meta.dirname, "../../../docs/reference/metrics.md"), "utf8");
  expect(page.match(/\bRamet\w+/g)?.sort()).toEqual(Object.keys(alerts).concat("RametRuntime").sort());
  const known = new Set(page.match(/\bramet_\w+/g));
  const used = [...Object.values(alerts).map(({ expr }) => expr), ...panels].flatMap(
    (expr) => expr.match(/\bramet_\w+/g) ?? [],
  );
  expect(used.filter((name) => !known.has(name.replace(/(?<=_seconds)_(bucket|count|sum)$/, "")))).toEqual([]);
});

function pool(available: number, desired: number, name = "pool"): string {
  const of = `{namespace="team-a", name="${name}"}`;
  return `ramet_sandboxset_available_replicas${of} ${available}x60\nramet_sandboxset_desired_replicas${of} ${desired}x60`;
}

interface Answer {
  results: number;
  error: string;
}

function ask(questions: readonly object[]): Answer[] {
  const { status, stdout, stderr } = spawnSync(program, { input: JSON.stringify(questions), encoding: "utf8" });
  expect(status, stderr).toBe(0);
  return JSON.parse(stdout) as Answer[];
}
