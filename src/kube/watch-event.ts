import { z } from "zod";
import { RametError } from "../base/errors.ts";
import { readStatusEvent, statusError } from "./status-error.ts";

/** One line of a watch. The object of a bookmark has only its resource version. */
export type WatchEvent<T> =
  { type: "ADDED" | "MODIFIED" | "DELETED"; object: T } | { type: "BOOKMARK"; resourceVersion: string };

const Line = z.object({
  type: z.enum(["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]),
  object: z.unknown(),
});

const Bookmark = z.looseObject({ metadata: z.looseObject({ resourceVersion: z.string() }) });

/**
 * Reads one line of a watch of `what`.
 *
 * @throws RametError for an `ERROR` event with what the server said (see `isExpired`), and `Unavailable` for a line
 *   that is no event: a connection that broke in the middle of one looks like that
 */
export function parseWatchLine<T>(what: string, line: string, parse: (value: unknown) => T): WatchEvent<T> {
  const event = parseLine(what, line);
  if (event.type === "ERROR") throw statusError(`watch ${what}`, readStatusEvent(event.object));
  if (event.type === "BOOKMARK") {
    return { type: "BOOKMARK", resourceVersion: Bookmark.parse(event.object).metadata.resourceVersion };
  }
  return { type: event.type, object: parse(event.object) };
}

function parseLine(what: string, line: string): z.infer<typeof Line> {
  try {
    return Line.parse(JSON.parse(line));
  } catch (error) {
    throw new RametError("Unavailable", `watch ${what} failed: a line is no watch event (it may be cut off)`, {
      retryable: true,
      cause: error,
    });
  }
}
