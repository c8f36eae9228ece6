import { RametError } from "../../../base/errors.ts";

/** Pages of a list that is sorted by time and id, as E2B's clients read them. */
export interface Page<T> {
  items: T[];
  /** For the header `X-Next-Token`. Absent on the last page. */
  nextToken?: string;
}

interface Sorted {
  /** RFC 3339. */
  time: string;
  id: string;
}

/**
 * Returns the page after a cursor.
 * @param sorted by time in this order, then by id
 * @throws RametError `InvalidArgument` for a cursor of another list or order
 */
export function pageOf<T>(
  sorted: readonly T[],
  keyOf: (item: T) => Sorted,
  { limit, nextToken, order }: { limit: number; nextToken?: string | undefined; order: "asc" | "desc" },
): Page<T> {
  const after = nextToken === undefined ? undefined : readCursor(nextToken, order);
  const rest = after === undefined ? sorted : sorted.filter((item) => compare(keyOf(item), after, order) > 0);
  const items = rest.slice(0, limit);
  const last = items.at(-1);
  if (last === undefined || rest.length <= limit) return { items };
  return { items, nextToken: writeCursor(keyOf(last), order) };
}

/** Negative if `a` comes first. */
export function compare(a: Sorted, b: Sorted, order: "asc" | "desc"): number {
  const byTime = Date.parse(a.time) - Date.parse(b.time);
  if (byTime !== 0) return order === "asc" ? byTime : -byTime;
  return a.id < b.id ? -1 : a.id > b.id ? 1 : 0;
}

function writeCursor({ time, id }: Sorted, order: "asc" | "desc"): string {
  return Buffer.from(`${order} ${time} ${id}`).toString("base64url");
}

function readCursor(text: string, order: "asc" | "desc"): Sorted {
  const [written, time = "", id = "", ...others] = Buffer.from(text, "base64url").toString("utf8").split(" ");
  if (written === order && id !== "" && others.length === 0 && !Number.isNaN(Date.parse(time))) return { time, id };
  throw new RametError("InvalidArgument", "Invalid next token", {
    hint: "Start again without nextToken: a token is for the same list and order",
  });
}
