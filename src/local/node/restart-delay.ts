import type { Clock } from "../../base/clock.ts";

const firstMilliseconds = 10_000;
const maxMilliseconds = 300_000;
/** After a run of this length the delays start again. */
const resetMilliseconds = 2 * maxMilliseconds;

/**
 * The delays of a kubelet before it restarts a container: none, then 10 s, doubled to 5 min.
 * @returns returns the delay after a run of `ranMilliseconds`
 */
export function restartDelays(clock: Clock): (ranMilliseconds: number) => number {
  let next = 0;
  let lastAt = -Infinity;
  return (ranMilliseconds) => {
    const now = clock.monotonicMilliseconds();
    const delay = Math.max(now - lastAt, ranMilliseconds) > resetMilliseconds ? 0 : next;
    lastAt = now;
    next = delay === 0 ? firstMilliseconds : Math.min(maxMilliseconds, delay * 2);
    return delay;
  };
}
