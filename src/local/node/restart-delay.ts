import type { Clock } from "../../base/clock.ts";

const firstMilliseconds = 10_000;
const maxMilliseconds = 300_000;
/** After a run of this length the delays start again. */
const resetMilliseconds = 2 * maxMilliseconds;

/** The delays of a kubelet before it restarts a container: none, then 10 s, doubled to 5 min. */
export class RestartDelay {
  readonly #clock: Clock;
  #next = 0;
  #lastAt: number | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The delay after a run of `ranMilliseconds`. */
  next(ranMilliseconds: number): number {
    const now = this.#clock.monotonicMilliseconds();
    const isOld = this.#lastAt === undefined || now - this.#lastAt > resetMilliseconds;
    if (isOld || ranMilliseconds > resetMilliseconds) this.#next = 0;
    this.#lastAt = now;
    const delay = this.#next;
    this.#next = delay === 0 ? firstMilliseconds : Math.min(maxMilliseconds, delay * 2);
    return delay;
  }
}
