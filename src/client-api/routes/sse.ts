import { Readable } from "node:stream";
import type { FastifyReply } from "fastify";
import type { Clock } from "../../base/clock.ts";

/** A server-sent event. */
export interface Sent {
  event: string;
  data: object;
}

/** Shorter than load balancers keep a silent connection. */
const keepaliveMilliseconds = 15_000;

/** Answers with events as they come. */
export function sendEvents(reply: FastifyReply, events: AsyncGenerator<Sent>, clock: Clock): FastifyReply {
  return sendStream(reply, "text/event-stream", textOf(events, clock));
}

/** Answers with lines of JSON as they come, and with others while there are none. */
export function sendLines(
  reply: FastifyReply,
  lines: AsyncGenerator<object>,
  clock: Clock,
  alive: () => object,
): FastifyReply {
  const lineOf = (line: object): string => `${JSON.stringify(line)}\n`;
  const text = streamed(lines, clock, { textOf: lineOf, keepalive: () => lineOf(alive()) });
  return sendStream(reply, "application/x-ndjson", text);
}

function sendStream(reply: FastifyReply, type: string, text: AsyncGenerator<string>): FastifyReply {
  void reply.header("cache-control", "no-cache").header("x-accel-buffering", "no").type(type);
  return reply.send(Readable.from(text));
}

interface Format<T> {
  textOf: (item: T) => string;
  keepalive: () => string;
}

const serverSent: Format<Sent> = {
  textOf: ({ event, data }) => `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`,
  keepalive: () => ": keepalive\n\n",
};

/** The text of events, with comments while there are none. */
export function textOf(events: AsyncGenerator<Sent>, clock: Clock): AsyncGenerator<string> {
  return streamed(events, clock, serverSent);
}

async function* streamed<T>(events: AsyncGenerator<T>, clock: Clock, format: Format<T>): AsyncGenerator<string> {
  let next = events.next();
  try {
    for (;;) {
      // Whoever stops reading does not wait for it.
      next.catch(() => undefined);
      const silence = Promise.withResolvers<undefined>();
      const cancel = clock.schedule(keepaliveMilliseconds, () => {
        silence.resolve(undefined);
      });
      const result = await Promise.race([next, silence.promise]).finally(cancel);
      if (result === undefined) {
        yield format.keepalive();
        continue;
      }
      if (result.done === true) return;
      yield format.textOf(result.value);
      next = events.next();
    }
  } finally {
    void events.return(undefined).catch(() => undefined);
  }
}
