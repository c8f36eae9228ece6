import type { Clock } from "../../src/base/clock.ts";

interface Timer {
  at: number;
  run: () => void;
}

/** A clock that moves only when a test advances it. */
export class ManualClock implements Clock {
  readonly #start: Date;
  readonly #timers = new Set<Timer>();
  #elapsed = 0;

  constructor(start = new Date("2026-01-02T03:04:05.678Z")) {
    this.#start = start;
  }

  now(): Date {
    return new Date(this.#start.getTime() + this.#elapsed);
  }

  monotonicMilliseconds(): number {
    return this.#elapsed;
  }

  schedule(milliseconds: number, run: () => void): () => void {
    const timer = { at: this.#elapsed + milliseconds, run };
    this.#timers.add(timer);
    return () => {
      this.#timers.delete(timer);
    };
  }

  /** The remaining time of each timer in milliseconds, shortest first. */
  get waits(): number[] {
    return [...this.#timers].map(({ at }) => at - this.#elapsed).sort((a, b) => a - b);
  }

  /** Advances the time and runs the timers that become due, in order. */
  advance(milliseconds: number): void {
    const end = this.#elapsed + milliseconds;
    for (let next = this.#next(end); next !== undefined; next = this.#next(end)) {
      this.#timers.delete(next);
      this.#elapsed = Math.max(this.#elapsed, next.at);
      next.run();
    }
    this.#elapsed = end;
  }

  #next(end: number): Timer | undefined {
    return [...this.#timers].filter(({ at }) => at <= end).sort((a, b) => a.at - b.at)[0];
  }
}
