import type { SandboxSetSpec } from "../../api/kinds/sandbox-set.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { annotations, labels } from "../../api/names/labels.ts";
import { rollbackRequest, isRollbackPending } from "../../api/names/rollback-request.ts";
import { RametError } from "../../base/errors.ts";
import type { Change } from "../../kube/store.ts";

export interface Bounds {
  /** Maximum number of sandboxes that start at the same time. */
  scale: number;
  /** Maximum number of unavailable sandboxes during a roll. 0: new sandboxes are created before old ones are deleted. */
  update: number;
}

/** @throws RametError `InvalidArgument`, naming the field */
export function boundsOf({ replicas, scaleStrategy, updateStrategy }: SandboxSetSpec): Bounds {
  const maxUnavailable = scaleStrategy?.maxUnavailable;
  const scale =
    maxUnavailable === undefined
      ? Number.POSITIVE_INFINITY
      : countOf(maxUnavailable, replicas, "spec.scaleStrategy.maxUnavailable");
  if (scale === 0 && replicas > 0) {
    throw new RametError("InvalidArgument", "spec.scaleStrategy.maxUnavailable is 0, so no sandbox can start", {
      hint: "Set it to 1 or more, or remove it to start all sandboxes at the same time",
    });
  }
  return {
    scale,
    update: countOf(
      updateStrategy?.maxUnavailable ?? defaultUnavailable(replicas),
      replicas,
      "spec.updateStrategy.maxUnavailable",
    ),
  };
}

/** A set of one is not left without a ready sandbox for a new one that may not start. */
function defaultUnavailable(replicas: number): number | string {
  return replicas === 1 ? 0 : "20%";
}

/**
 * A number of sandboxes, given as a number or as a percentage of `total`. Percentages are rounded up, as in OpenKruise Agents.
 * @param field its path, for the error message
 * @throws RametError `InvalidArgument`
 */
export function countOf(value: number | string, total: number, field: string): number {
  if (typeof value === "number" && value >= 0) return value;
  const percent = typeof value === "string" ? /^(\d{1,9})%$/.exec(value)?.[1] : undefined;
  if (percent !== undefined) return Math.ceil((Number(percent) * total) / 100);
  throw new RametError("InvalidArgument", `${field} is neither a number nor a percentage: ${JSON.stringify(value)}`, {
    hint: 'Write a number of at least 0, like 2, or a quoted percentage, like "20%"',
  });
}

/** A restore in place takes about a tenth of this. */
const longestMilliseconds = 1_000;
/** Leaves the CPU to the first requests of a restored clone. */
const settleMilliseconds = 100;

/**
 * How long a set must not create sandboxes; 0: it need not wait. It gives way to clones that are being restored in sandboxes just
 * claimed from it: users wait for them, and a new sandbox on the same node would compete for the CPU.
 *
 * @param awaited claimed sandboxes whose restore in place has not ended
 */
export function givesWayMilliseconds(awaited: readonly Sandbox[], now: Date): number {
  return Math.max(0, ...awaited.map((sandbox) => awaitedMilliseconds(sandbox, now)));
}

/** Delay of the reconcile after a change: until the clone is restored, plus a moment. */
export function reconcileDelayMilliseconds(change: Change<Sandbox>, now: Date): number {
  const awaited = awaitedMilliseconds(change.object, now);
  if (awaited > 0 || change.type !== "updated") return awaited;
  return awaitedMilliseconds(change.previous, now) > 0 ? settleMilliseconds : 0;
}

/** The set to reconcile when a sandbox changes that it may have given way to. */
export function setOfClone(sandbox: Sandbox, now: Date): string[] {
  const set = sandbox.metadata.labels?.[labels.sandboxPool];
  if (set === undefined || rollbackRequest(sandbox) === undefined || millisecondsLeft(sandbox, now) <= 0) return [];
  return [`${sandbox.metadata.namespace}/${set}`];
}

function awaitedMilliseconds(sandbox: Sandbox, now: Date): number {
  return isRollbackPending(sandbox) ? Math.max(0, millisecondsLeft(sandbox, now)) : 0;
}

function millisecondsLeft({ metadata }: Sandbox, now: Date): number {
  const claimed = Date.parse(metadata.annotations?.[annotations.claimTimestamp] ?? "");
  return Number.isNaN(claimed) ? 0 : claimed + longestMilliseconds - now.getTime();
}
