import { annotations, labels } from "../../api/labels.ts";
import { rollbackRequest, wantsRollback } from "../../api/rollback-request.ts";
import type { Sandbox } from "../../api/sandbox.ts";
import type { Clock } from "../../kube/clock.ts";

/** A clone in a ready Pod takes about a tenth of it. */
const longestMilliseconds = 1_000;
/** In which a clone that answers has the processor for what it is asked first. */
const restMilliseconds = 100;

/**
 * A set gives way to the clones that are being made in sandboxes just claimed from it: those are waited for, and the start of a
 * successor on the same node would take the processor from them.
 */
export class GivingWay {
  readonly #clock: Clock;
  /** By the set's UID. */
  readonly #giving = new Set<string>();
  readonly #restUntil = new Map<string, number>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * For how long the set is to make nothing; 0: it need not wait.
   * @param awaited the sandboxes that were claimed from it, and in which a clone does not answer yet
   */
  milliseconds(setUid: string, awaited: readonly Sandbox[]): number {
    const now = this.#clock.now();
    const left = Math.max(0, ...awaited.filter(wantsRollback).map((sandbox) => millisecondsLeft(sandbox, now)));
    if (left > 0) {
      this.#giving.add(setUid);
      return left;
    }
    const monotonic = this.#clock.monotonicMilliseconds();
    if (this.#giving.delete(setUid)) this.#restUntil.set(setUid, monotonic + restMilliseconds);
    const rest = (this.#restUntil.get(setUid) ?? 0) - monotonic;
    if (rest > 0) return rest;
    this.#restUntil.delete(setUid);
    return 0;
  }
}

/** The set to be told of a change of a sandbox that it may have given way to. */
export function setOfClone(sandbox: Sandbox, now: Date): string[] {
  const set = sandbox.metadata.labels?.[labels.sandboxPool];
  if (set === undefined || rollbackRequest(sandbox) === undefined || millisecondsLeft(sandbox, now) <= 0) return [];
  return [`${sandbox.metadata.namespace}/${set}`];
}

function millisecondsLeft({ metadata }: Sandbox, now: Date): number {
  const claimed = Date.parse(metadata.annotations?.[annotations.claimTimestamp] ?? "");
  return Number.isNaN(claimed) ? 0 : claimed + longestMilliseconds - now.getTime();
}
