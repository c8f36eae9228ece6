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
  void reply.header("cache-control", "no-cache").header("x-accel-buffering", "no").type("text/event-stream");
  return reply.send(Readable.from(textOf(events, clock)));
}

/** The text of events, with comments while there are none. */
export async function* textOf(events: AsyncGenerator<Sent>, clock: Clock): AsyncGenerator<string> {
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
        yield ": keepalive\n\n";
        continue;
      }
      if (result.done === true) return;
      const { event, data } = result.value;
      yield `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`;
      next = events.next();
    }
  } finally {
    void events.return(undefined).catch(() => undefined);
  }
}
