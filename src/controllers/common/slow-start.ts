import type { Clock } from "../../base/clock.ts";

/**
 * Tells what takes long. A sandbox that starts at once needs no status in between: its first one says Running. One that
 * waits gets a status that says for what.
 */
export class SlowStart {
  readonly #clock: Clock;
  readonly #since = new Map<string, number>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Milliseconds until `id`, which is first heard of now if it is new, counts as slow; 0: it does. */
  millisecondsLeft(id: string): number {
    const now = this.#clock.monotonicMilliseconds();
    const since = this.#since.get(id) ?? now;
    this.#since.set(id, since);
    return Math.max(0, since + slowMilliseconds - now);
  }

  forget(id: string): void {
    this.#since.delete(id);
  }
}

const slowMilliseconds = 500;
