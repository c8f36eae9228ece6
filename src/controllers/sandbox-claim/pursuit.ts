import { createHash } from "node:crypto";
import { backoffMilliseconds } from "../../base/backoff.ts";
import type { Clock } from "../../base/clock.ts";

/** What one process does for one claim that is not completed. */
export class Pursuit {
  /** When this process first heard of the claim: its start, where no status says another one. */
  readonly since: Date;
  /** Ordinals for which an attempt was started and whose sandbox the cache does not show yet. */
  readonly ordinals = new Set<number>();
  /** Ends the waiting for stock. */
  readonly abort = new AbortController();
  readonly #clock: Clock;
  readonly #random: () => number;
  /** UIDs of sandboxes that were no good. */
  readonly #failed = new Set<string>();
  #notBefore = 0;

  constructor(clock: Clock, random: () => number) {
    this.since = clock.now();
    this.#clock = clock;
    this.#random = random;
  }

  /** After each one the next is waited with for longer: a template that cannot start must not be tried without end. */
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
 * The lock of the n-th sandbox of a claim, in the shape of a UUID. Always the same: a controller that repeats what another
 * one died over finds that one's sandbox, and makes no second one.
 */
export function ordinalLock(claimUid: string, ordinal: number): string {
  const hex = createHash("sha256").update(`${claimUid}/${ordinal}`).digest("hex");
  const parts = [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `8${hex.slice(13, 16)}`,
    `8${hex.slice(17, 20)}`,
    hex.slice(20, 32),
  ];
  return parts.join("-");
}
