import * as z from "zod";
import { RametError } from "../base/errors.ts";
import type { ResourceRef } from "./resource-ref.ts";
import { readStatusEvent, statusError } from "./status-error.ts";
import { type ApiCaller, networkError } from "./transport.ts";

export interface WatchOptions {
  namespace?: string | undefined;
  labelSelector?: string | undefined;
  fieldSelector?: string | undefined;
  /** The version of a list, an object or a bookmark. */
  resourceVersion: string;
  /** The time after which the server ends the stream normally. */
  timeoutSeconds: number;
  /**
   * How long the stream may be silent before the connection counts as broken. The API server sends a bookmark about once a
   * minute, so it must be longer than that.
   */
  stallMilliseconds: number;
  /** Called when the server has accepted the request: changes will arrive. */
  onOpen?: (() => void) | undefined;
  signal: AbortSignal;
}

/**
 * Yields the events of a resource after a resource version. Ends when the server ends the stream normally.
 *
 * @throws RametError `Canceled` if `signal` is aborted; `Timeout` after a silence; `Unavailable` if the connection breaks, a line
 *   is truncated or the server ends the stream immediately; an error for which `isExpired` holds if the resource version is
 *   too old
 */
export async function* watchResource(
  client: ApiCaller,
  resource: ResourceRef,
  options: WatchOptions,
): AsyncGenerator<WatchEvent<unknown>> {
  const broken = (code: "Timeout" | "Unavailable", why: string): RametError =>
    new RametError(code, `watch ${resource.plural} failed: ${why}`, { retryable: true });
  const stall = new AbortController();
  const signal = AbortSignal.any([options.signal, stall.signal]);
  let cancelStall: () => void = () => undefined;
  const heard = (): void => {
    cancelStall();
    cancelStall = client.clock.schedule(options.stallMilliseconds, () => {
      const seconds = Math.round(options.stallMilliseconds / 1000);
      stall.abort(broken("Timeout", `the server sent nothing for ${seconds} s, not even a bookmark`));
    });
  };
  const started = client.clock.monotonicMilliseconds();
  let isEmpty = true;
  try {
    heard();
    const body = await client.stream({
      verb: "watch",
      resource,
      at: { namespace: options.namespace },
      query: {
        watch: true,
        allowWatchBookmarks: true,
        resourceVersion: options.resourceVersion,
        timeoutSeconds: options.timeoutSeconds,
        labelSelector: options.labelSelector,
        fieldSelector: options.fieldSelector,
      },
      repeatable: false,
      signal,
    });
    options.onOpen?.();
    for await (const line of lines(body, heard)) {
      isEmpty = false;
      yield parseWatchLine(resource.plural, line);
    }
    // Watching again immediately would be a busy loop.
    if (isEmpty && client.clock.monotonicMilliseconds() - started < shortWatchMilliseconds) {
      throw broken("Unavailable", "the server ended it immediately");
    }
  } catch (error) {
    throw networkError(`watch ${resource.plural}`, error, signal);
  } finally {
    cancelStall();
    // A reader that stops early leaves the stream open; this closes it.
    stall.abort();
  }
}

const shortWatchMilliseconds = 1_000;

/** The lines of a stream, including an incomplete last line, which then fails to parse. */
async function* lines(body: AsyncIterable<unknown>, heard: () => void): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of body) {
    heard();
    if (!(chunk instanceof Uint8Array)) continue;
    const parts = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    rest = parts.pop() ?? "";
    for (const part of parts) if (part !== "") yield part;
  }
  rest += decoder.decode();
  if (rest !== "") yield rest;
}

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
 * @throws RametError with the server's status for an `ERROR` event (see `isExpired`), and `Unavailable` for a line
 *   that is not an event, such as one that was truncated by a broken connection
 */
function parseWatchLine(what: string, line: string): WatchEvent<unknown> {
  const event = parseLine(what, line);
  if (event.type === "ERROR") throw statusError(`watch ${what}`, readStatusEvent(event.object));
  if (event.type === "BOOKMARK") {
    return { type: "BOOKMARK", resourceVersion: Bookmark.parse(event.object).metadata.resourceVersion };
  }
  return { type: event.type, object: event.object };
}

function parseLine(what: string, line: string): z.infer<typeof Line> {
  try {
    return Line.parse(JSON.parse(line));
  } catch (error) {
    throw new RametError("Unavailable", `watch ${what} failed: a line is not a watch event (it may be truncated)`, {
      retryable: true,
      cause: error,
    });
  }
}
