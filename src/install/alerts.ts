/** An alert of Prometheus. */
export interface Alert {
  expr: string;
  /** How long the expression must hold. */
  for: string;
  severity: "critical" | "warning";
  /** What has happened, with what it means for users. */
  summary: string;
  /** What to do. */
  action: string;
}

const servers = "ramet-(controller|gateway|client-api)-metrics";

/** The alerts by name. docs/reference/metrics.md describes their metrics. */
export const alerts: Readonly<Record<string, Alert>> = {
  RametServerDown: {
    expr: `up{job=~"${servers}"} == 0`,
    for: "5m",
    severity: "critical",
    summary: "Prometheus cannot read the metrics of {{ $labels.pod }}",
    action: "Read the Pod's log; if the Pod is ready, check the NetworkPolicy for readers of metrics",
  },
  RametControllerAbsent: {
    expr: "absent(ramet_queue_depth)",
    for: "5m",
    severity: "critical",
    summary: "No controller works: no sandbox starts and no checkpoint is taken",
    action: "Look at the Deployment ramet-controller and its log",
  },
  RametOtherControllers: {
    expr: "max(ramet_other_controllers) > 0",
    for: "5m",
    severity: "critical",
    summary: "Another project's controllers own the same kinds, so Ramet's controllers do not work",
    action: "Remove one of the two, or install Ramet beside them",
  },
  RametReconcilesFail: {
    expr: 'sum by (controller) (rate(ramet_reconciles_total{result="error"}[10m])) / sum by (controller) (rate(ramet_reconciles_total[10m])) > 0.1',
    for: "15m",
    severity: "warning",
    summary: "More than a tenth of the reconciles of {{ $labels.controller }} fail",
    action: "Search the controllers' log for errors of this controller",
  },
  RametQueueIsSlow: {
    expr: "histogram_quantile(0.99, sum by (controller, le) (rate(ramet_queue_wait_seconds_bucket[10m]))) > 5",
    for: "15m",
    severity: "warning",
    summary: "Objects wait more than 5 s for {{ $labels.controller }}",
    action: "Compare ramet_reconcile_seconds and ramet_api_request_seconds: the API server or a controller is slow",
  },
  RametPoolIsEmpty: {
    expr: "ramet_sandboxset_available_replicas == 0 and ramet_sandboxset_desired_replicas > 0",
    for: "10m",
    severity: "critical",
    summary: "The set {{ $labels.namespace }}/{{ $labels.name }} has no ready sandbox, so claims wait",
    action: "Run ramet explain for the set",
  },
  RametPoolIsNotFull: {
    expr: "ramet_sandboxset_available_replicas < ramet_sandboxset_desired_replicas",
    for: "30m",
    severity: "warning",
    summary: "The set {{ $labels.namespace }}/{{ $labels.name }} has been short of ready sandboxes for half an hour",
    action: "Run ramet explain for the set; if claims take all sandboxes, raise its replicas",
  },
  RametClaimsFail: {
    expr: "sum by (code) (rate(ramet_claim_failures_total[10m])) > 0",
    for: "10m",
    severity: "warning",
    summary: "Claims fail with {{ $labels.code }}",
    action: "Look up the code in docs/errors.md",
  },
  RametBuildFailed: {
    expr: 'increase(ramet_snapshot_build_seconds_count{result="failed"}[1h]) > 0',
    for: "0m",
    severity: "warning",
    summary: "A build of a named snapshot failed; its last version is still served",
    action: "Find it with kubectl get namedsnapshots -A, and run ramet snapshot logs",
  },
  RametCheckpointDataMissing: {
    expr: "max(ramet_checkpoints_data_missing) > 0",
    for: "0m",
    severity: "critical",
    summary: "The store has lost the data of {{ $value }} checkpoints, which cannot be cloned",
    action: "Run ramet doctor, and check who else writes to the bucket or has rules for its objects",
  },
  RametStoreSweepsFail: {
    expr: 'sum(increase(ramet_store_sweeps_total{result="error"}[6h])) > 0 unless sum(increase(ramet_store_sweeps_total{result="success"}[6h])) > 0',
    for: "1h",
    severity: "warning",
    summary: "No sweep of the store succeeds, so deleted checkpoints still take space",
    action: "Check the rights of the controllers to list and delete in the bucket",
  },
  RametSandboxesLost: {
    expr: 'sum by (cause) (increase(ramet_sandbox_disruptions_total{outcome=~"Failed|Lost"}[1h])) > 0',
    for: "0m",
    severity: "warning",
    summary: "Sandboxes ended with their Pods ({{ $labels.cause }})",
    action: "Compare the grace period of Pods with the time of a capture: docs/tasks/node-maintenance.md",
  },
  RametCellsNotProven: {
    expr: "increase(ramet_cells_not_proven_total[15m]) > 0 or increase(ramet_gateway_cells_not_proven_total[15m]) > 0",
    for: "5m",
    severity: "critical",
    summary: "Another process answers at the address of a cell",
    action: "Find out which Pods have host networking or reuse addresses in namespaces with sandboxes",
  },
  RametGatewayRefuses: {
    expr: 'sum by (reason) (rate(ramet_gateway_refusals_total{reason=~"overload|client|namespace|sandbox|reviews|waiting"}[10m])) > 1',
    for: "10m",
    severity: "warning",
    summary: "Gateways refuse more than one request a second: {{ $labels.reason }}",
    action: "Add replicas, or raise the limit: docs/tasks/gateway.md",
  },
  RametClientApiFails: {
    expr: 'sum(rate(ramet_client_api_requests_total{status=~"5.."}[10m])) / sum(rate(ramet_client_api_requests_total[10m])) > 0.05',
    for: "10m",
    severity: "critical",
    summary: "More than 5% of the responses of the client API are errors of the server",
    action: "Read the log of ramet-client-api",
  },
  RametApiServerRefuses: {
    expr: 'sum by (verb, resource) (rate(ramet_api_requests_total{status=~"403|429|5..|none"}[10m])) > 0.5',
    for: "15m",
    severity: "warning",
    summary: "The API server refuses or fails to {{ $labels.verb }} {{ $labels.resource }}",
    action: "Status 403: apply the manifests of this version; others: check the API server",
  },
};
