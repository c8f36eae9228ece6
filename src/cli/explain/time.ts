/** Seconds from `since` (RFC 3339) until `now`; infinitely many if it is not known. */
export function secondsSince(since: string | undefined, now: Date): number {
  const instant = Date.parse(since ?? "");
  return Number.isNaN(instant) ? Number.POSITIVE_INFINITY : (now.getTime() - instant) / 1000;
}
