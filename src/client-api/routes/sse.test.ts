import { expect, it } from "vitest";
import { ManualClock } from "../../../test/setup/manual-clock.ts";
import { type Sent, textOf } from "./sse.ts";

it("writes events, and comments while there are none", async () => {
  const clock = new ManualClock();
  const more = Promise.withResolvers<undefined>();
  async function* events(): AsyncGenerator<Sent> {
    yield { event: "start", data: { a: 1 } };
    await more.promise;
    yield { event: "log", data: { text: "two\nlines" } };
  }
  const text = textOf(events(), clock);
  expect((await text.next()).value).toBe('event: start\ndata: {"a":1}\n\n');
  const silent = text.next();
  clock.advance(15_000);
  expect((await silent).value).toBe(": keepalive\n\n");
  more.resolve(undefined);
  expect((await text.next()).value).toBe('event: log\ndata: {"text":"two\\nlines"}\n\n');
  expect((await text.next()).done).toBe(true);
  expect(clock.waits).toEqual([]);
});

it("ends the events when nobody reads any more", async () => {
  const ended = Promise.withResolvers<undefined>();
  async function* events(): AsyncGenerator<Sent> {
    try {
      for (;;) yield await Promise.resolve({ event: "log", data: {} });
    } finally {
      ended.resolve(undefined);
    }
  }
  const text = textOf(events(), new ManualClock());
  await text.next();
  await text.return(undefined);
  await expect(ended.promise).resolves.toBe(undefined);
});
