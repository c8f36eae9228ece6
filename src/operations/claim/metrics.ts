import type { Registry } from "prom-client";
import type { ErrorCode } from "../../base/error-codes.ts";
import { MetricGroup } from "../../kube/metrics.ts";

export interface ClaimMetrics {
  claimed: (kind: "hot" | "cold", milliseconds: number) => void;
  /** Another client claimed the chosen sandbox first. */
  conflicted: () => void;
  failed: (code: ErrorCode) => void;
  /** Removes the metrics from the registry. */
  close: () => void;
}

export function claimMetrics(registry: Registry): ClaimMetrics {
  const group = new MetricGroup(registry);
  const seconds = group.histogram({
    name: "ramet_claim_seconds",
    help: "Time to claim one sandbox in seconds, including the wait for a ready one; for kind=cold, time to create it.",
    labelNames: ["kind"],
    buckets: [0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60],
  });
  const conflicts = group.counter({
    name: "ramet_claim_conflicts_total",
    help: "Claim writes that lost to another client's claim of the same sandbox.",
  });
  const failures = group.counter({
    name: "ramet_claim_failures_total",
    help: "Failed claims of one sandbox, by error code.",
    labelNames: ["code"],
  });
  return {
    claimed: (kind, milliseconds) => {
      seconds.observe({ kind }, milliseconds / 1000);
    },
    conflicted: () => {
      conflicts.inc();
    },
    failed: (code) => {
      failures.inc({ code });
    },
    close: () => {
      group.close();
    },
  };
}
