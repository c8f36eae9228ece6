import { Counter, Histogram, type Registry } from "prom-client";
import type { ErrorCode } from "../base/error-codes.ts";

/** What is counted of claims. */
export interface ClaimMetrics {
  claimed: (kind: "hot" | "cold", milliseconds: number) => void;
  /** A candidate was somebody else's by then. */
  conflicted: () => void;
  failed: (code: ErrorCode) => void;
  /** Takes all of them out of the registry: another leader's may come. */
  close: () => void;
}

export function claimMetrics(registry: Registry): ClaimMetrics {
  const registers = [registry];
  const seconds = new Histogram({
    name: names[0],
    help: "From the wish for one sandbox until it was claimed, waiting included; of a cold one, until it was created.",
    labelNames: ["kind"],
    buckets,
    registers,
  });
  const conflicts = new Counter({
    name: names[1],
    help: "Candidates that were somebody else's by the time of the write.",
    registers,
  });
  const failures = new Counter({
    name: names[2],
    help: "Wishes for one sandbox that came to nothing, by the error's code.",
    labelNames: ["code"],
    registers,
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
      for (const name of names) registry.removeSingleMetric(name);
    },
  };
}

const names = ["ramet_claim_seconds", "ramet_claim_conflicts_total", "ramet_claim_failures_total"] as const;
const buckets = [0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60];
