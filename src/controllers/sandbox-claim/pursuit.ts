import { uuidOf } from "../../api/schema/digest.ts";
import { backoffMilliseconds } from "../../base/backoff.ts";
import type { Clock } from "../../base/clock.ts";

/** The record of one process about a claim that is not completed. */
export class Pursuit {
  /** The start of the claim, unless its status has an earlier one. */
  readonly since: Date;
  /** When this process first saw the claim. */
  readonly seenAt: Date;
  /** Ordinals with an attempt whose sandbox the cache does not show yet. */
  readonly ordinals = new Set<number>();
  /** Stops the wait for ready sandboxes. */
  readonly abort = new AbortController();
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #failed = new Set<string>();
  #notBefore = 0;

  constructor(clock: Clock, random: () => number, since: Date) {
    this.since = since;
    this.seenAt = clock.now();
    this.#clock = clock;
    this.#random = random;
  }

  /** Each failure lengthens the pause before the next attempt, so that a template that cannot start is not tried without limit. */
  noteFailed(uids: readonly string[]): void {
    const fresh = uids.filter((uid) => !this.#failed.has(uid));
    if (fresh.length === 0) return;
    const pause = backoffMilliseconds(pauses, this.#failed.size, this.#random);
    for (const uid of fresh) this.#failed.add(uid);
    this.#notBefore = this.#clock.monotonicMilliseconds() + pause;
  }

  get pauseMilliseconds(): number {
    return Math.max(0, Math.ceil(this.#notBefore - this.#clock.monotonicMilliseconds()));
  }
}

const pauses = { baseMilliseconds: 500, maxMilliseconds: 30_000 };

/**
 * The lock of the n-th sandbox of a claim, in the form of a UUID. It is deterministic: a controller that repeats an interrupted
 * attempt finds the sandbox of that attempt and does not claim a second one.
 */
export function ordinalLock(claimUid: string, ordinal: number): string {
  return uuidOf(`${claimUid}/${ordinal}`);
}
