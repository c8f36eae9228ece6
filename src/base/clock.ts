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

/** The duration of each phase of an operation in milliseconds, in the order in which the phases ended. */
export type Phases = Record<string, number>;

/** Measures named phases, which may overlap or repeat, in milliseconds. */
export class PhaseClock {
  readonly phases: Phases = {};

  /** Runs `work` as the phase `name`. Durations of the same phase are added up. */
  async phase<T>(name: string, work: () => Promise<T>): Promise<T> {
    const start = performance.now();
    try {
      return await work();
    } finally {
      this.phases[name] = (this.phases[name] ?? 0) + Math.round((performance.now() - start) * 10) / 10;
    }
  }
}

/** Measures consecutive phases in milliseconds. Each call of `end` names the phase since the previous call. */
export function phaseTimer(): { phases: Phases; end(phase: string): void } {
  const phases: Phases = {};
  let since = performance.now();
  return {
    phases,
    end: (phase) => {
      const now = performance.now();
      phases[phase] = Math.round((now - since) * 100) / 100;
      since = now;
    },
  };
}

export interface BackoffOptions {
  /** The delay before the first retry. */
  baseMilliseconds: number;
  maxMilliseconds: number;
  /** The random share of a delay, from 0 to 1. @default 0.5 */
  jitter?: number;
}

/**
 * Returns the delay before a retry. `attempt` 0 is the first retry. The delay doubles up to the maximum. Its random share
 * keeps clients that failed together from retrying together.
 */
export function backoffMilliseconds(options: BackoffOptions, attempt: number, random: () => number): number {
  const full = Math.min(options.maxMilliseconds, options.baseMilliseconds * 2 ** Math.min(attempt, 30));
  const jitter = options.jitter ?? 0.5;
  return full * (1 - jitter) + full * jitter * random();
}
