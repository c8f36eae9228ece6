import { annotations, labels } from "../../api/names/labels.ts";
import { rollbackRequest, wantsRollback } from "../../api/names/rollback-request.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import type { Change } from "../../kube/store.ts";

/** A clone in a ready Pod takes about a tenth of it. */
const longestMilliseconds = 1_000;
/** In which a clone that answers has the processor for what it is asked first. */
const settleMilliseconds = 100;

/**
 * For how long a set is to make nothing; 0: it need not wait. It gives way to the clones that are being made in sandboxes just
 * claimed from it: those are waited for, and the start of a successor on the same node would take the processor from them.
 *
 * @param awaited the sandboxes that were claimed from it, and in which a clone does not answer yet
 */
export function givesWayMilliseconds(awaited: readonly Sandbox[], now: Date): number {
  return Math.max(0, ...awaited.map((sandbox) => awaitedMilliseconds(sandbox, now)));
}

/** In how many milliseconds the set is to look at a change: a clone that comes to be has it wait, and then rest a moment longer. */
export function reconcileDelayMilliseconds(change: Change<Sandbox>, now: Date): number {
  const awaited = awaitedMilliseconds(change.object, now);
  if (awaited > 0 || change.type !== "updated") return awaited;
  return awaitedMilliseconds(change.previous, now) > 0 ? settleMilliseconds : 0;
}

/** The set to be told of a change of a sandbox that it may have given way to. */
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
