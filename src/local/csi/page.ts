import { RametError } from "../../base/errors.ts";

interface Entry {
  id: string;
  createdAt: string;
}

/**
 * One page of a list that is sorted by age. The token is the first entry of the next page; if that entry has been deleted, the page
 * starts after its place. New entries come last, so a caller that reads page after page misses none.
 * @throws RametError `Conflict` for a token that is none
 */
export function pageOf<E extends Entry>(
  entries: readonly E[],
  { maxEntries, startingToken }: { maxEntries: number; startingToken: string },
): { page: E[]; nextToken: string } {
  if (startingToken !== "" && !tokenPattern.test(startingToken))
    throw new RametError("Conflict", "Listing failed: the starting token is not one of this driver", {
      hint: "Start the list again without a token",
    });
  const rest = entries.filter((entry) => tokenOf(entry) >= startingToken);
  const page = maxEntries === 0 ? rest : rest.slice(0, maxEntries);
  const next = rest[page.length];
  return { page, nextToken: next === undefined ? "" : tokenOf(next) };
}

const tokenPattern = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z [a-z]+-[0-9a-f]{40}$/;

/** Sorts as the list does, because all times have the same length. */
function tokenOf({ createdAt, id }: Entry): string {
  return `${createdAt} ${id}`;
}
