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
