import { RametError } from "./errors.ts";

/** Time, passed in so that tests decide when it passes. */
export interface Clock {
  /** Wall time, for instants that others read. It may jump; never measure with it. */
  now(): Date;
  /** Milliseconds since some fixed instant. They only go forward. */
  monotonicMilliseconds(): number;
  /** Calls `run` once, after that many milliseconds; the function that is returned calls it off. */
  schedule(milliseconds: number, run: () => void): () => void;
}

export const systemClock: Clock = {
  now: () => new Date(),
  monotonicMilliseconds: () => performance.now(),
  schedule: (milliseconds, run) => {
    let timer: NodeJS.Timeout;
    const arm = (left: number): void => {
      // Node fires at once when asked to wait longer than this (a `ttlAfterFinished` of 30d is).
      const step = Math.min(left, longestTimerMilliseconds);
      timer = setTimeout(() => {
        if (left > step) arm(left - step);
        else run();
      }, step);
    };
    arm(Math.max(0, milliseconds));
    return () => {
      clearTimeout(timer);
    };
  },
};

const longestTimerMilliseconds = 2 ** 31 - 1;

/** Resolves after that many milliseconds; rejects with `Canceled` as soon as `signal` is aborted. */
export function delay(clock: Clock, milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted === true) {
      reject(canceled("Waiting", signal));
      return;
    }
    const onAbort = (): void => {
      cancel();
      reject(canceled("Waiting", signal));
    };
    const cancel = clock.schedule(milliseconds, () => {
      signal?.removeEventListener("abort", onAbort);
      resolve();
    });
    signal?.addEventListener("abort", onAbort, { once: true });
  });
}

/** What is thrown when `signal` ended an operation. */
export function canceled(what: string, signal?: AbortSignal): RametError {
  return new RametError("Canceled", `${what} was given up: the caller asked for it`, { cause: signal?.reason });
}

/** Resolves as soon as `signal` is aborted. */
export function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    const onAbort = (): void => {
      resolve();
    };
    signal.addEventListener("abort", onAbort, { once: true });
  });
}
