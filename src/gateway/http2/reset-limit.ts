import type { Clock } from "../../base/clock.ts";

/** More than clients need that cancel calls, also through a proxy that shares its connection between them. */
const burst = 200;
const perSecond = 20;

/** Limits how often a client resets a request that it has sent: each costs the gateway and the sandbox more than the client. */
export class ResetLimit {
  readonly #clock: Clock;
  #tokens = burst;
  #at: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#at = clock.monotonicMilliseconds();
  }

  /** @returns whether the client has reset no more than it may */
  accept(): boolean {
    const now = this.#clock.monotonicMilliseconds();
    this.#tokens = Math.min(burst, this.#tokens + ((now - this.#at) / 1000) * perSecond);
    this.#at = now;
    if (this.#tokens < 1) return false;
    this.#tokens--;
    return true;
  }
}
