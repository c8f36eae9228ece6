import type { Problem } from "../../api/schema/problem.ts";
import { backoffMilliseconds } from "../../base/clock.ts";

/** Failures of one revision: sandboxes that ended before they were claimed, or could not be created. */
export interface Failures {
  revisionHash: string;
  /** Consecutive failures. Those during a pause count as one. */
  inARow: number;
  lastAt: Date;
  /** Monotonic time. */
  lastAtMilliseconds: number;
  pauseMilliseconds: number;
  message: string;
  /** The problem of the last one. */
  problem?: Problem | undefined;
  /** Whether the last one ended a wait of minutes, so that it was no accident. */
  isConclusive: boolean;
  counted: ReadonlySet<string>;
}

export interface FailuresSeen {
  revisionHash: string;
  /** Ended sandboxes with the cause. */
  ended: readonly { uid: string; message: string; problem?: Problem; isConclusive?: boolean }[];
  /** Whether sandboxes of the revision are starting and none that is younger than the last failure is available. */
  isUnproven?: (lastAt: Date) => boolean;
  now: Date;
  monotonicMilliseconds: number;
  random: () => number;
}

/**
 * Adds the observed failures to the record. The first failure causes no pause (a Pod may have been deleted); each further one
 * doubles the pause, up to five minutes. The record is reset by a minute without a failure after the pause, and by another revision.
 * While the next attempt is still starting, it has proven nothing: to find out that an image cannot be pulled takes minutes.
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
    problem: last.problem,
    isConclusive: last.isConclusive === true,
    counted,
  };
}

/** The delay before the next start of a revision. */
export type Backoff = ReturnType<typeof backoffOf>;

export function backoffOf(failures: Failures | undefined, monotonicMilliseconds: number) {
  const { inARow = 0, message = "", problem, isConclusive = false, lastAt, pauseMilliseconds = 0 } = failures ?? {};
  return {
    inARow,
    message,
    problem,
    isConclusive,
    lastAt,
    nextAt: lastAt && new Date(lastAt.getTime() + pauseMilliseconds),
    /** Until the next sandbox may be created; 0: now. */
    waitMilliseconds: failures === undefined ? 0 : waitOf(failures, monotonicMilliseconds),
  };
}

function waitOf({ lastAtMilliseconds, pauseMilliseconds }: Failures, now: number): number {
  return Math.max(0, lastAtMilliseconds + pauseMilliseconds - now);
}

function isOver(failures: Failures, { monotonicMilliseconds, isUnproven }: FailuresSeen): boolean {
  const { lastAt, lastAtMilliseconds, pauseMilliseconds } = failures;
  if (monotonicMilliseconds - lastAtMilliseconds <= pauseMilliseconds + steadyMilliseconds) return false;
  return isUnproven?.(lastAt) !== true;
}

const pauses = { baseMilliseconds: 1_000, maxMilliseconds: 300_000, jitter: 0.2 };
const steadyMilliseconds = 60_000;
