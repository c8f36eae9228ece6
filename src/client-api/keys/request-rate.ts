import type { Clock } from "../../base/clock.ts";

/** Limits the requests of each key. A client can send the requests of one second at once. */
export class RequestRates {
  readonly #clock: Clock;
  /** By key, the time from which it is full again. */
  readonly #fullAt = new Map<string, number>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** @returns 0, or the seconds after which the key may send its next request */
  take(key: string, perSecond: number): number {
    if (perSecond === Infinity) return 0;
    const now = this.#clock.monotonicMilliseconds();
    const cost = 1000 / perSecond;
    const fullAt = Math.max(this.#fullAt.get(key) ?? 0, now);
    const waitMilliseconds = fullAt + cost - now - 1000;
    if (waitMilliseconds > 0.001) return Math.ceil(waitMilliseconds / 1000);
    this.#fullAt.set(key, fullAt + cost);
    if (this.#fullAt.size > mostKeys) this.#forgetFull(now);
    return 0;
  }

  #forgetFull(now: number): void {
    for (const [key, fullAt] of this.#fullAt) if (fullAt <= now) this.#fullAt.delete(key);
  }
}

const mostKeys = 10_000;
