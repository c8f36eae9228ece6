import type { Registry } from "prom-client";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { annotations } from "../../api/names/labels.ts";
import { canceled, type Clock } from "../../base/clock.ts";
import type { ErrorCode } from "../../base/error-codes.ts";
import { RametError } from "../../base/errors.ts";
import type { FairTurns } from "../../base/fair-turns.ts";
import { MetricGroup } from "../../kube/metrics.ts";
import type { ResourceClient } from "../../kube/resource-client.ts";
import { coldSandbox, type NamedManifest } from "./cold-sandbox.ts";
import { claimPatch, type ClaimRequest, validateClaimRequest } from "./request.ts";
import type { Stock } from "./stock.ts";

/** The dependencies of claims; one per process. */
export interface ClaimParts {
  sandboxes: ResourceClient<Sandbox>;
  stock: Stock;
  turns: FairTurns;
  /**
   * An unclaimed sandbox, as the set would create it now; undefined if the set does not exist.
   * @throws RametError for a set whose template is invalid
   */
  model: (set: { namespace: string; name: string }) => Promise<NamedManifest | undefined>;
  /** Writes a sandbox and remembers the response until the cache has it. @default only writes */
  remember?: (base: Sandbox, write: () => Promise<Sandbox>) => Promise<Sandbox>;
  metrics?: ClaimMetrics;
  clock: Clock;
}

/** `hot`: the sandbox was ready. `cold`: it was created for this claim, and is not ready yet. */
export interface Claimed {
  sandbox: Sandbox;
  kind: "hot" | "cold";
}

/**
 * Claims one sandbox of a set with one guarded write to one object, so two claimers never get the same one. A repeat of the
 * same request returns the sandbox of the first attempt.
 *
 * @param signal ends the wait; a write that was sent is awaited
 * @throws RametError `InvalidArgument`; `NotFound` if the set does not exist; `Timeout` if no sandbox became ready in time;
 *   `Conflict` (retryable) if others were faster each time; `Unavailable` (retryable) if the outcome of the write is unknown:
 *   repeat the request
 */
export async function claimSandbox(request: ClaimRequest, parts: ClaimParts, signal: AbortSignal): Promise<Claimed> {
  const { clock, metrics } = parts;
  validateClaimRequest(request);
  const startedAt = clock.monotonicMilliseconds();
  const late = new AbortController();
  const cancel = clock.schedule(request.timeoutMilliseconds, () => {
    late.abort();
  });
  try {
    const claimed = await tryCandidates(request, parts, AbortSignal.any([signal, late.signal]));
    metrics?.claimed(claimed.kind, clock.monotonicMilliseconds() - startedAt);
    return claimed;
  } catch (thrown) {
    const known = RametError.from(thrown);
    const isLate = late.signal.aborted && !signal.aborted && known.code === "Canceled";
    const error = isLate ? noStock(request) : known;
    metrics?.failed(error.code);
    throw error;
  } finally {
    cancel();
  }
}

/** After so many conflicts, other claimers are faster than this process's watch. */
const mostConflicts = 32;

async function tryCandidates(request: ClaimRequest, parts: ClaimParts, signal: AbortSignal): Promise<Claimed> {
  const { stock, turns } = parts;
  const { namespace, set } = request;
  try {
    for (let conflicts = 0; conflicts <= mostConflicts;) {
      const tried = await turns.run(namespace, () => tryOnce(request, parts, signal), signal);
      if (tried === "conflict") {
        parts.metrics?.conflicted();
        conflicts++;
      } else if (tried === "nothing") await untilMore(request, parts, signal);
      else return tried;
    }
  } finally {
    stock.passOn(`${namespace}/${set}`);
  }
  const what = `Claiming from the set ${set} failed: others took each of ${mostConflicts} candidates`;
  throw new RametError("Conflict", what, { retryable: true });
}

/** Joins the line first, then checks that the set exists: no sandbox is missed in between. */
async function untilMore(request: ClaimRequest, parts: ClaimParts, signal: AbortSignal): Promise<void> {
  const leave = new AbortController();
  const more = parts.stock.untilMore(`${request.namespace}/${request.set}`, AbortSignal.any([signal, leave.signal]));
  try {
    await Promise.all([more, modelOf(request, parts)]);
  } finally {
    leave.abort();
  }
}

async function tryOnce(
  request: ClaimRequest,
  parts: ClaimParts,
  signal: AbortSignal,
): Promise<Claimed | "conflict" | "nothing"> {
  if (signal.aborted) throw canceled("Claiming", signal);
  const { namespace, set, lock } = request;
  const { stock } = parts;
  const held = stock.heldBy(namespace, lock);
  if (held !== undefined) {
    const sandbox = await held;
    return sandbox === undefined ? tryOnce(request, parts, signal) : { sandbox, kind: "hot" };
  }
  const isCold = request.startsFrom !== undefined;
  const place = { setKey: `${namespace}/${set}`, lock };
  const candidate = isCold ? undefined : stock.take(place, request.fits, request.onlyFitting);
  if (candidate !== undefined) {
    const sandbox = await stock.noted(request, takeCandidate(candidate, request, parts));
    return sandbox === undefined ? "conflict" : { sandbox, kind: "hot" };
  }
  if (request.onlyFitting === true) throw noStock(request);
  if (!request.createOnNoStock && !isCold) return "nothing";
  return { sandbox: await createClaimed(await modelOf(request, parts), request, parts), kind: "cold" };
}

async function modelOf(request: ClaimRequest, { model }: ClaimParts): Promise<NamedManifest> {
  const { namespace, set } = request;
  const found = await model({ namespace, name: set });
  if (found !== undefined) return found;
  throw new RametError("NotFound", `The SandboxSet ${set} does not exist in the namespace ${namespace}`, {
    hint: `List the sets with: kubectl get sandboxsets -n ${namespace}`,
  });
}

/**
 * Undefined if another claimer was faster or the sandbox was deleted.
 * @throws RametError the error of the write, also if its result cannot be read
 */
async function takeCandidate(
  candidate: Sandbox,
  request: ClaimRequest,
  parts: ClaimParts,
): Promise<Sandbox | undefined> {
  const { sandboxes, stock, clock, remember } = parts;
  const write = () => sandboxes.jsonPatch(candidate.metadata, claimPatch(candidate, request, clock.now()));
  try {
    return await (remember === undefined ? write() : remember(candidate, write));
  } catch (thrown) {
    const error = RametError.from(thrown);
    if (error.code === "NotFound") return undefined;
    if (!error.retryable && error.code !== "Conflict") {
      stock.giveBack(candidate);
      throw error;
    }
    // The response to the write was lost, or another server was faster, perhaps for the same request: the lock shows the owner.
    const found = await sandboxes.find(candidate.metadata).catch(() => {
      if (error.retryable) throw error;
      return undefined;
    });
    return found?.metadata.uid === candidate.metadata.uid && hasLock(found, request.lock) ? found : undefined;
  }
}

/**
 * Creates a sandbox that is claimed from the start. A repeat of the same request returns the sandbox of the first attempt.
 * @throws RametError `Conflict` (retryable) if its name is in use
 */
export async function createClaimed(
  model: NamedManifest,
  request: ClaimRequest,
  { sandboxes, clock }: Pick<ClaimParts, "sandboxes" | "clock">,
): Promise<Sandbox> {
  const manifest = coldSandbox(model, request, clock.now());
  try {
    return await sandboxes.create(manifest);
  } catch (error) {
    if (RametError.from(error).code !== "AlreadyExists") throw error;
    // The name is derived from the lock: an earlier attempt created the sandbox, and it may be being deleted.
    const found = await sandboxes.find(manifest.metadata);
    if (found !== undefined && hasLock(found, request.lock) && found.metadata.deletionTimestamp === undefined)
      return found;
    throw new RametError("Conflict", `Creating the sandbox ${manifest.metadata.name} failed: the name is in use`, {
      retryable: true,
      cause: error,
    });
  }
}

function hasLock({ metadata }: Sandbox, lock: string): boolean {
  return metadata.annotations?.[annotations.lock] === lock;
}

function noStock({ set, timeoutMilliseconds }: ClaimRequest): RametError {
  return new RametError(
    "Timeout",
    `Claiming from the set ${set} failed: no sandbox became ready within ${Math.round(timeoutMilliseconds / 1000)} s`,
    { hint: "Increase the set's replicas, or let the claim create a sandbox (createOnNoStock)" },
  );
}

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
