import { RametError } from "./errors.ts";

/** A source of time. Code receives it as a dependency so that tests control time. */
export interface Clock {
  /** The wall-clock time, for timestamps that others read. It can jump, so never use it to measure a duration. */
  now(): Date;
  /** Milliseconds since an arbitrary fixed instant. The value never decreases. */
  monotonicMilliseconds(): number;
  /** Calls `run` once after `milliseconds`. @returns a function that cancels the call */
  schedule(milliseconds: number, run: () => void): () => void;
}

export const systemClock: Clock = {
  now: () => new Date(),
  monotonicMilliseconds: () => performance.now(),
  schedule: (milliseconds, run) => {
    let timer: NodeJS.Timeout;
    const arm = (left: number): void => {
      // Node fires a longer timer immediately. A `ttlAfterFinished` of 30d is longer.
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

/** Resolves after `milliseconds`. @throws RametError `Canceled` as soon as `signal` aborts */
export function delay(clock: Clock, milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted === true) {
      reject(canceled("Waiting", signal));
      return;
    }
    const cancel = clock.schedule(milliseconds, () => {
      stop?.();
      resolve();
    });
    const stop =
      signal &&
      onAbort(signal, () => {
        cancel();
        reject(canceled("Waiting", signal));
      });
  });
}

/** The error for an operation that `signal` ended. @param what the operation, as the subject of the message */
export function canceled(what: string, signal?: AbortSignal): RametError {
  return new RametError("Canceled", `${what} was canceled by its caller`, { cause: signal?.reason });
}

/** Calls `run` when `signal` aborts, immediately if it has. @returns a function that cancels the call */
export function onAbort(signal: AbortSignal, run: () => void): () => void {
  if (signal.aborted) run();
  signal.addEventListener("abort", run, { once: true });
  return () => {
    signal.removeEventListener("abort", run);
  };
}

/** Resolves as `work` does, unless `signal` aborts first. @throws what `aborted` returns then */
export async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal, aborted: () => Error): Promise<T> {
  const ended = Promise.withResolvers<never>();
  const stop = onAbort(signal, () => {
    ended.reject(aborted());
  });
  try {
    return await Promise.race([work, ended.promise]);
  } finally {
    stop();
  }
}

/** A function, because the compiler assumes that `aborted` does not change. */
export function isAborted(signal: AbortSignal | undefined): boolean {
  return signal?.aborted === true;
}

/** Resolves as soon as `signal` aborts. */
export function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    onAbort(signal, resolve);
  });
}
