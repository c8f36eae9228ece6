export interface BackoffOptions {
  /** Of the first repeat. */
  baseMilliseconds: number;
  maxMilliseconds: number;
  /** How much of a delay is left to chance, 0 to 1. */
  jitter?: number;
}

/**
 * How long to wait before repeat number `attempt` (0 is the first): it doubles up to the maximum, and a part of it is
 * left to chance, so that what failed together does not come back together.
 */
export function backoffMilliseconds(options: BackoffOptions, attempt: number, random: () => number): number {
  const full = Math.min(options.maxMilliseconds, options.baseMilliseconds * 2 ** Math.min(attempt, 30));
  const jitter = options.jitter ?? 0.5;
  return full * (1 - jitter) + full * jitter * random();
}
