const severities = ["harmless", "harmful", "deadly"] as const;
/**
 * The effect that a fault may have on the operation that it hits. `harmless`: the operation succeeds, if later. `harmful`: it succeeds, or
 * fails with a reason, and the sandbox keeps running. `deadly`: it may also lose the sandbox whose process was killed.
 */
export type Severity = (typeof severities)[number];

/** Every kind of fault. `longest`: the upper limit in milliseconds of what lasts; 0 for what happens in an instant. */
export const faultKinds = {
  "kill-controller": { severity: "harmless", longest: 0, scope: "part" },
  "kill-node": { severity: "harmless", longest: 0, scope: "part" },
  "kill-api-server": { severity: "harmless", longest: 0, scope: "part" },
  "kill-etcd": { severity: "harmless", longest: 0, scope: "part" },
  "kill-cell": { severity: "deadly", longest: 0, scope: "sandbox" },
  "kill-link": { severity: "deadly", longest: 0, scope: "sandbox" },
  "kill-sentry": { severity: "deadly", longest: 0, scope: "sandbox" },
  "kill-gofer": { severity: "deadly", longest: 0, scope: "sandbox" },
  // A killed restore leaves no sandbox, neither a clone nor a resumed one. The state of the latter stays in its checkpoint.
  "kill-runsc": { severity: "deadly", longest: 0, scope: "sandbox" },
  "hang-runsc": { severity: "harmless", longest: 3_000, scope: "sandbox" },
  "hang-cell": { severity: "harmless", longest: 2_000, scope: "sandbox" },
  "hang-sentry": { severity: "harmless", longest: 2_000, scope: "sandbox" },
  "hang-controller": { severity: "harmless", longest: 3_000, scope: "part" },
  "hang-node": { severity: "harmless", longest: 3_000, scope: "part" },
  "hang-api-server": { severity: "harmless", longest: 3_000, scope: "part" },
  "hang-etcd": { severity: "harmless", longest: 2_000, scope: "part" },
  "api-429": { severity: "harmless", longest: 2_000, scope: "part" },
  "api-500": { severity: "harmless", longest: 2_000, scope: "part" },
  "api-409": { severity: "harmless", longest: 2_000, scope: "part" },
  "api-slow": { severity: "harmless", longest: 4_000, scope: "part" },
  "api-hang": { severity: "harmless", longest: 3_000, scope: "part" },
  "api-cut": { severity: "harmless", longest: 2_000, scope: "part" },
  "stale-watch": { severity: "harmless", longest: 5_000, scope: "part" },
  "lost-lease": { severity: "harmless", longest: 0, scope: "part" },
  "clock-forward": { severity: "harmful", longest: 2_000, scope: "part" },
  "clock-back": { severity: "harmful", longest: 2_000, scope: "part" },
  "store-full": { severity: "harmful", longest: 2_000, scope: "part" },
  "store-read-only": { severity: "harmful", longest: 2_000, scope: "part" },
  "store-write-error": { severity: "harmful", longest: 2_000, scope: "part" },
  "store-slow": { severity: "harmless", longest: 2_000, scope: "part" },
  "store-truncated": { severity: "deadly", longest: 2_000, scope: "sandbox" },
} as const satisfies Record<string, KindRule>;
export type FaultKind = keyof typeof faultKinds;
export const faultKindNames = Object.keys(faultKinds) as FaultKind[];

interface KindRule {
  severity: Severity;
  longest: number;
  /** The target: one part of the cluster, and so all operations of its batch, or the sandbox of one operation. */
  scope: "part" | "sandbox";
}

export const operations = ["checkpoint", "clone", "pause", "rollback", "delete", "snapshot"] as const;
export type Operation = (typeof operations)[number];

/** When: after the request, when gVisor's command runs for it, or when the operation has ended. Each plus `delay`. */
export const steps = ["request", "engine", "end"] as const;
export type Step = (typeof steps)[number];

export interface Fault {
  /** From 0; with the seed, it identifies the fault. */
  index: number;
  kind: FaultKind;
  /** The place in the batch's operations whose progress it follows, and whose sandbox it hits. */
  lane: number;
  step: Step;
  delayMilliseconds: number;
  lastsMilliseconds: number;
}

/** Operations that run at the same time, each in a sandbox of its own, and the faults that hit them. */
export interface Batch {
  number: number;
  operations: Operation[];
  faults: Fault[];
}

export interface PlanOptions {
  seed: number;
  faults: number;
  kinds: readonly FaultKind[];
  lanes: number;
}

/** Plans the faults. The same options give the same plan. */
export function planFaults({ seed, faults, kinds, lanes }: PlanOptions): Batch[] {
  const next = randomFrom(seed);
  const below = (limit: number): number => Math.floor(next() * limit);
  const oneOf = <T>(values: readonly T[]): T => values[below(values.length)]!;
  const batches: Batch[] = [];
  for (let index = 0; index < faults;) {
    const batch: Batch = { number: batches.length, operations: [], faults: [] };
    for (let lane = 0; lane < lanes; lane++) batch.operations.push(oneOf(weightedOperations));
    const used = new Set<string>();
    // Otherwise, hardly any batch would have only harmless faults, which no operation may fail by.
    const worst = below(severities.length) + 1;
    const possible = kinds.filter((kind) => severities.indexOf(faultKinds[kind].severity) < worst);
    for (let tries = 0; tries < 6 * lanes && batch.faults.length < 3 * lanes && index < faults; tries++) {
      const kind = oneOf(possible.length === 0 ? kinds : possible);
      const { longest }: KindRule = faultKinds[kind];
      const lane = below(lanes);
      const places = placesOf(kind, lane);
      const step = kind.endsWith("-runsc") ? "request" : oneOf(steps);
      const delayMilliseconds = below(step === "request" ? 900 : 150);
      const lastsMilliseconds = longest === 0 ? 0 : 100 + below(longest - 100);
      if (places.some((place) => used.has(place))) continue;
      for (const place of places) used.add(place);
      batch.faults.push({ index: index++, kind, lane, step, delayMilliseconds, lastsMilliseconds });
    }
    batches.push(batch);
  }
  return batches;
}

/** The targets that only one fault of a batch can hit: a part restarts after growing pauses, and a sandbox dies only once. */
function placesOf(kind: FaultKind, lane: number): string[] {
  const own = faultKinds[kind].scope === "part" ? kind : `sandbox ${lane}`;
  const shared = ["clock", "store"].filter((place) => kind.startsWith(`${place}-`));
  return [own, ...shared];
}

/** A snapshot takes as long as four of the others. */
const weightedOperations: readonly Operation[] = [
  ...Array.from({ length: 6 }, () => "checkpoint" as const),
  ...Array.from({ length: 5 }, () => "clone" as const),
  ...Array.from({ length: 3 }, () => ["pause", "rollback", "delete"] as const).flat(),
  "snapshot",
];

/** The worst that may happen to the operation in a lane. */
export function severityOf({ faults }: Batch, lane: number): Severity {
  const found: Severity[] = faults
    .filter((fault) => faultKinds[fault.kind].scope === "part" || fault.lane === lane)
    .map(({ kind }) => faultKinds[kind].severity);
  return severities.findLast((severity) => found.includes(severity)) ?? "harmless";
}

/** The fault with this index as a batch of one operation. */
export function batchOfFault(batches: readonly Batch[], index: number): Batch | undefined {
  const batch = batches.find(({ faults }) => faults.some((fault) => fault.index === index));
  const fault = batch?.faults.find((one) => one.index === index);
  const operation = fault && batch?.operations[fault.lane];
  if (batch === undefined || fault === undefined || operation === undefined) return undefined;
  return { number: batch.number, operations: [operation], faults: [{ ...fault, lane: 0 }] };
}

/** Mulberry32 (Tommy Ettinger, public domain): small, and the same everywhere. */
export function randomFrom(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
