import { annotations, labels } from "../../api/names/labels.ts";
import { rollbackRequest, wantsRollback } from "../../api/names/rollback-request.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import type { Change } from "../../kube/store.ts";

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
  return wantsRollback(sandbox) ? Math.max(0, millisecondsLeft(sandbox, now)) : 0;
}

function millisecondsLeft({ metadata }: Sandbox, now: Date): number {
  const claimed = Date.parse(metadata.annotations?.[annotations.claimTimestamp] ?? "");
  return Number.isNaN(claimed) ? 0 : claimed + longestMilliseconds - now.getTime();
}
