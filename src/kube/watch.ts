import { RametError } from "../base/errors.ts";
import type { ApiCaller } from "./api-request.ts";
import { networkError } from "./network-error.ts";
import type { ResourceRef } from "./resource-ref.ts";
import { parseWatchLine, type WatchEvent } from "./watch-event.ts";

export interface WatchOptions {
  namespace?: string | undefined;
  labelSelector?: string | undefined;
  fieldSelector?: string | undefined;
  /** Of a list, an object or a bookmark. */
  resourceVersion: string;
  /** When the server ends the stream in good order. */
  timeoutSeconds: number;
  /**
   * After how long a silence the connection is taken for dead. The API server sends a bookmark about once a minute, so
   * it must be longer than that.
   */
  stallMilliseconds: number;
  signal: AbortSignal;
  /** Called when the server has accepted the watch. */
  onOpen?: () => void;
}

/**
 * The events of a resource after a resource version. It ends when the server ends the stream in good order.
 *
 * @throws RametError `Canceled` after `signal`; `Timeout` after a silence; `Unavailable` if the connection breaks, a line
 *   is cut off or the server ends the stream at once; an error for which `isExpired` holds if the resource version is too
 *   old
 */
export async function* watchResource(
  client: ApiCaller,
  resource: ResourceRef,
  options: WatchOptions,
): AsyncGenerator<WatchEvent<unknown>> {
  const stall = new AbortController();
  const signal = AbortSignal.any([options.signal, stall.signal]);
  let cancelStall: () => void = () => undefined;
  const heard = (): void => {
    cancelStall();
    cancelStall = client.clock.schedule(options.stallMilliseconds, () => {
      stall.abort(silence(resource, options.stallMilliseconds));
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
      yield parseWatchLine(resource.plural, line, (object) => object);
    }
    // Whoever watches again at once would do nothing else.
    if (isEmpty && client.clock.monotonicMilliseconds() - started < shortWatchMilliseconds) throw endedAtOnce(resource);
  } catch (error) {
    throw networkError(`watch ${resource.plural}`, error, signal);
  } finally {
    cancelStall();
    // A reader that stops early leaves the stream open; this closes it.
    stall.abort();
  }
}

const shortWatchMilliseconds = 1_000;

/** The lines of a stream. What follows the last line end is given too: whoever parses it sees that it is cut off. */
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

function silence(resource: ResourceRef, milliseconds: number): RametError {
  const seconds = Math.round(milliseconds / 1000);
  return new RametError(
    "Timeout",
    `watch ${resource.plural} failed: nothing came for ${seconds} s, not even a bookmark`,
    {
      retryable: true,
    },
  );
}

function endedAtOnce(resource: ResourceRef): RametError {
  return new RametError("Unavailable", `watch ${resource.plural} failed: the server ended it at once`, {
    retryable: true,
  });
}
