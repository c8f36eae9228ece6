import { type EventFacts, lastSeen } from "./facts.ts";

/**
 * Compares two Events of one cluster; the one that was observed later comes first.
 *
 * Most components record whole seconds, and a controller that retries immediately records two Events in one second. Those are ordered by
 * the write that the API server made later. Its resource versions can be compared as numbers within one type of object (KEP-5504).
 */
export function latestFirst(a: EventFacts, b: EventFacts): number {
  return wholeSeconds(b) - wholeSeconds(a) || compareVersions(b.metadata.resourceVersion, a.metadata.resourceVersion);
}

/** The second in which the Event was last observed, since 1970. 0 if its time cannot be read. */
function wholeSeconds(event: EventFacts): number {
  const milliseconds = Date.parse(lastSeen(event));
  return Number.isNaN(milliseconds) ? 0 : Math.floor(milliseconds / 1000);
}

/** Compares decimal numbers of any size without leading zeros. Other texts have no order that means anything, but always the same one. */
function compareVersions(a: string, b: string): number {
  if (a.length !== b.length) return a.length - b.length;
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
