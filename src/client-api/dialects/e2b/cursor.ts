import type { FastifyReply } from "fastify";
import { RametError } from "../../../base/errors.ts";

interface Sorted {
  /** RFC 3339. */
  time: string;
  id: string;
}

interface Paging {
  /** Infinity: all of them. */
  limit: number;
  nextToken?: string | undefined;
  order: "asc" | "desc";
}

/**
 * Returns the page after a cursor, and the token of the next page if there is one. Items are sorted by time in this order, then by id.
 * @throws RametError `InvalidArgument` for a cursor of another list or order
 */
export function pageOf<T>(
  all: readonly T[],
  keyOf: (item: T) => Sorted,
  { limit, nextToken, order }: Paging,
): { items: T[]; nextToken?: string } {
  const after = nextToken === undefined ? undefined : readCursor(nextToken, order);
  const rest = all
    .filter((item) => after === undefined || compare(keyOf(item), after, order) > 0)
    .toSorted((a, b) => compare(keyOf(a), keyOf(b), order));
  const items = rest.slice(0, limit);
  const last = items.at(-1);
  if (last === undefined || rest.length <= limit) return { items };
  return { items, nextToken: writeCursor(keyOf(last), order) };
}

/** The items of a page for an answer, whose header gets the token of the next page. */
export function pageFor<T>(
  reply: FastifyReply,
  all: readonly T[],
  keyOf: (item: T) => Sorted,
  paging: Paging,
): readonly T[] {
  const { items, nextToken } = pageOf(all, keyOf, paging);
  if (nextToken !== undefined) void reply.header("x-next-token", nextToken);
  return items;
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
