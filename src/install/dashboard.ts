/** A panel: its title, its unit, and expressions of Prometheus by their legend. */
type Panel = readonly [title: string, unit: string, queries: Readonly<Record<string, string>>];

/** The rows of the dashboard. */
export const rows: Readonly<Record<string, readonly Panel[]>> = {
  "Claims and sets": [
    [
      "Time of claims",
      "s",
      {
        "p50 {{kind}}": quantile(0.5, "ramet_claim_seconds", "kind"),
        "p99 {{kind}}": quantile(0.99, "ramet_claim_seconds", "kind"),
      },
    ],
    [
      "Claims",
      "ops",
      {
        "{{kind}}": "sum by (kind) (rate(ramet_claim_seconds_count[$__rate_interval]))",
        "failed: {{code}}": "sum by (code) (rate(ramet_claim_failures_total[$__rate_interval]))",
        "lost to another claim": "sum(rate(ramet_claim_conflicts_total[$__rate_interval]))",
      },
    ],
    [
      "Ready sandboxes of sets",
      "short",
      {
        "{{namespace}}/{{name}}": "ramet_sandboxset_available_replicas",
        "{{namespace}}/{{name}} desired": "ramet_sandboxset_desired_replicas",
      },
    ],
    [
      "Sandboxes created and deleted",
      "ops",
      {
        created: "sum(rate(ramet_sandboxset_sandboxes_created_total[$__rate_interval]))",
        "deleted: {{why}}": "sum by (why) (rate(ramet_sandboxset_sandboxes_deleted_total[$__rate_interval]))",
      },
    ],
  ],
  Snapshots: [
    ["Time of builds", "s", { "p90 {{result}}": quantile(0.9, "ramet_snapshot_build_seconds", "result") }],
    [
      "Steps",
      "ops",
      {
        "run: {{result}}": "sum by (result) (rate(ramet_snapshot_step_seconds_count[$__rate_interval]))",
        "from the cache": "sum(rate(ramet_snapshot_cached_steps_total[$__rate_interval]))",
      },
    ],
    [
      "Disruptions",
      "short",
      { "{{cause}}: {{outcome}}": "sum by (cause, outcome) (increase(ramet_sandbox_disruptions_total[1h]))" },
    ],
    [
      "Store",
      "bytes",
      {
        "freed in an hour by sweeps": "sum(increase(ramet_store_swept_bytes_total[1h]))",
        "collected in an hour: {{garbage}}": "sum by (garbage) (increase(ramet_garbage_collected_bytes_total[1h]))",
      },
    ],
  ],
  "Gateways and client API": [
    [
      "Requests to sandboxes",
      "reqps",
      { "{{status}}": "sum by (status) (rate(ramet_gateway_requests_total[$__rate_interval]))" },
    ],
    ["Requests in progress", "short", { "{{pod}}": "ramet_gateway_requests_under_way" }],
    [
      "Refusals and resumes",
      "ops",
      {
        "refused: {{reason}}": "sum by (reason) (rate(ramet_gateway_refusals_total[$__rate_interval]))",
        "resume: {{result}}": "sum by (result) (rate(ramet_gateway_resumes_total[$__rate_interval]))",
      },
    ],
    ["Client API", "s", { "p99 {{route}}": quantile(0.99, "ramet_client_api_request_seconds", "route") }],
  ],
  Controllers: [
    [
      "Reconciles",
      "ops",
      { "{{controller}} {{result}}": "sum by (controller, result) (rate(ramet_reconciles_total[$__rate_interval]))" },
    ],
    ["Time in the queue", "s", { "p99 {{controller}}": quantile(0.99, "ramet_queue_wait_seconds", "controller") }],
    [
      "Requests to the API server",
      "reqps",
      { "{{verb}} {{status}}": "sum by (verb, status) (rate(ramet_api_requests_total[$__rate_interval]))" },
    ],
    ["Time of the API server", "s", { "p99 {{verb}}": quantile(0.99, "ramet_api_request_seconds", "verb") }],
  ],
};

function quantile(share: number, metric: string, label: string): string {
  return `histogram_quantile(${share}, sum by (${label}, le) (rate(${metric}_bucket[$__rate_interval])))`;
}

/** The dashboard as Grafana imports it. */
export function dashboard(): object {
  const datasource = { type: "prometheus", uid: "$datasource" };
  const panels = Object.entries(rows).flatMap(([title, inRow], row) => [
    { type: "row", title, gridPos: { x: 0, y: row * 9, w: 24, h: 1 } },
    ...inRow.map(([name, unit, queries], at) => ({
      type: "timeseries",
      title: name,
      datasource,
      gridPos: { x: at * 6, y: row * 9 + 1, w: 6, h: 8 },
      fieldConfig: { defaults: { unit, min: 0 }, overrides: [] },
      targets: Object.entries(queries).map(([legendFormat, expr], index) => ({
        refId: String.fromCharCode("A".charCodeAt(0) + index),
        datasource,
        expr,
        legendFormat,
      })),
    })),
  ]);
  return {
    title: "Ramet",
    uid: "ramet",
    schemaVersion: 39,
    time: { from: "now-6h", to: "now" },
    templating: { list: [{ name: "datasource", type: "datasource", query: "prometheus" }] },
    panels: panels.map((panel, index) => ({ id: index + 1, ...panel })),
  };
}
