import type { Clock } from "../base/clock.ts";

/**
 * Detects for a liveness probe that a server has stopped working although its process runs. Reports only conditions that a
 * restart fixes:
 *
 * - An informer's loop has come to no result, good or bad, for a long time: a promise in it never settles.
 * - A worker has had one key for a long time: its reconcile never settles, and the key is not reconciled again.
 * - Keys wait, but no worker takes one: the workers have ended or are all stuck.
 *
 * An API server that is unreachable or refuses requests is not reported: each failed attempt is a result, and a new
 * process would fail as well. A blocked event loop needs no check here: the probe itself then times out.
 */
export class Liveness {
  readonly #clock: Clock;
  readonly #checks = new Set<LivenessCheck>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Adds a check. @returns a function that removes it */
  add(check: LivenessCheck): () => void {
    this.#checks.add(check);
    return () => {
      this.#checks.delete(check);
    };
  }

  /** One line for each thing that has stopped; empty while the server works. */
  problems(): string[] {
    const now = this.#clock.monotonicMilliseconds();
    return [...this.#checks].flatMap(({ waitingSince, describe }) => {
      const since = waitingSince();
      const milliseconds = since === undefined ? 0 : now - since;
      return milliseconds > stoppedMilliseconds
        ? [`${describe()} for ${Math.round(milliseconds / 60_000)} minutes`]
        : [];
    });
  }
}

export interface LivenessCheck {
  /** When it last made progress, by the monotonic clock; undefined while there is nothing to do. */
  waitingSince: () => number | undefined;
  /** Such as `The informer of pods has made no progress`. */
  describe: () => string;
}

/**
 * Longer than any healthy operation: one request with all its retries takes at most ten minutes
 * (`requestTimeoutMilliseconds`, and the pauses that a server requests).
 */
export const stoppedMilliseconds = 20 * 60_000;
