import type { ClaimTimes } from "./claim-one.ts";
import type { ClaimStorm } from "./claim-storm.ts";
import { aligned } from "./report.ts";
import type { Summary } from "./samples.ts";

export function claimTable({ n, stocked, claimed, answering }: ClaimTimes): string {
  const rows = [
    ["", "p50", "p95", "p99", "max"],
    ["SandboxClaim written → Completed seen", ...percentiles(claimed)],
    ["SandboxClaim written → first HTTP response", ...percentiles(answering)],
  ];
  return [`claims of running sandboxes, one at a time, ms (${n}, of a set of ${stocked})`, ...aligned(rows)].join("\n");
}

export function claimStormTable(storms: readonly ClaimStorm[]): string {
  const head = [
    "way, claims, concurrent",
    "p50",
    "p95",
    "p99",
    "max",
    "per second",
    "twice",
    "cold",
    "writes",
    "reconciles",
  ];
  const rows = storms.map(({ way, claims, concurrency, milliseconds, ...rest }) => [
    `${way}, ${claims}, ${Math.min(claims, concurrency)}`,
    ...percentiles(milliseconds),
    rest.claimsPerSecond.toFixed(0),
    `${rest.twice}`,
    `${rest.cold}`,
    rest.writes.toFixed(2),
    rest.reconciles.toFixed(2),
  ]);
  return [
    `storms of claims, ms, of ${storms[0]?.stocked ?? 0} SIMULATED ready sandboxes; writes and reconciles per claim`,
    ...aligned([head, ...rows]),
    ...goals(storms),
  ].join("\n");
}

/** The goals at a concurrency of 100, for the function that a gateway calls. */
function goals(storms: readonly ClaimStorm[]): string[] {
  return storms
    .filter(({ way, claims, concurrency }) => way === "function" && concurrency === 100 && claims >= 100)
    .map(({ claims, milliseconds, claimsPerSecond }) => {
      const met = milliseconds.p50 <= 350 && claimsPerSecond >= 250;
      const figures = `p50 ${milliseconds.p50.toFixed(0)} ms, ${claimsPerSecond.toFixed(0)} per second`;
      return `  goal   ${claims} claims: ${figures} (required: ≤ 350, ≥ 250; ${met ? "met" : "MISSED"})`;
    });
}

function percentiles({ p50, p95, p99, max }: Summary): string[] {
  return [p50, p95, p99, max].map((value) => value.toFixed(1));
}
