import { backoffMilliseconds } from "../../base/backoff.ts";

/** What is remembered of sandboxes of one revision that ended before anybody claimed them, or could not be made. */
export interface Failures {
  revisionHash: string;
  /** How many in a row, where those that end while a pause lasts count as one. */
  inARow: number;
  lastAt: Date;
  /** Of a clock that only goes forward. */
  lastAtMilliseconds: number;
  pauseMilliseconds: number;
  message: string;
  /** UIDs that were counted. */
  counted: ReadonlySet<string>;
}

export interface FailuresSeen {
  revisionHash: string;
  /** Sandboxes that have ended, and why. */
  ended: readonly { uid: string; message: string }[];
  now: Date;
  monotonicMilliseconds: number;
  random: () => number;
}

/** What the failures of one revision mean for the next start. */
export interface Backoff {
  inARow: number;
  /** Until the next sandbox may be made; 0 is now. */
  waitMilliseconds: number;
  nextAt: Date | undefined;
  message: string;
  lastAt: Date | undefined;
}

/**
 * The record with what is seen now: a first failure costs nothing (somebody deleted a Pod), each further one doubles the
 * pause up to five minutes, and a minute without one after the pause is the end of it. Another revision begins anew.
 */
export function nextFailures(before: Failures | undefined, seen: FailuresSeen): Failures | undefined {
  const same = before?.revisionHash === seen.revisionHash && !isOver(before, seen) ? before : undefined;
  const ended = seen.ended.filter(({ uid }) => before?.counted.has(uid) !== true);
  const last = ended.at(-1);
  if (last === undefined) return same;
  const counted = new Set(seen.ended.map(({ uid }) => uid));
  if (same !== undefined && waitOf(same, seen.monotonicMilliseconds) > 0) return { ...same, counted };
  const inARow = (same?.inARow ?? 0) + 1;
  return {
    revisionHash: seen.revisionHash,
    inARow,
    lastAt: seen.now,
    lastAtMilliseconds: seen.monotonicMilliseconds,
    pauseMilliseconds: inARow === 1 ? 0 : backoffMilliseconds(pauses, inARow - 2, seen.random),
    message: last.message,
    counted,
  };
}

export function backoffOf(failures: Failures | undefined, monotonicMilliseconds: number): Backoff {
  if (failures === undefined) return none;
  const { inARow, message, lastAt, pauseMilliseconds } = failures;
  const nextAt = new Date(lastAt.getTime() + pauseMilliseconds);
  return { inARow, message, lastAt, nextAt, waitMilliseconds: waitOf(failures, monotonicMilliseconds) };
}

const none: Backoff = { inARow: 0, waitMilliseconds: 0, nextAt: undefined, message: "", lastAt: undefined };

function waitOf({ lastAtMilliseconds, pauseMilliseconds }: Failures, now: number): number {
  return Math.max(0, lastAtMilliseconds + pauseMilliseconds - now);
}

function isOver({ lastAtMilliseconds, pauseMilliseconds }: Failures, { monotonicMilliseconds }: FailuresSeen): boolean {
  return monotonicMilliseconds - lastAtMilliseconds > pauseMilliseconds + steadyMilliseconds;
}

const pauses = { baseMilliseconds: 1_000, maxMilliseconds: 300_000, jitter: 0.2 };
const steadyMilliseconds = 60_000;
