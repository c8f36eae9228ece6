import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { createInterface } from "node:readline";
import { Readable } from "node:stream";
import fastify from "fastify";
import fc from "fast-check";
import { expect, it } from "vitest";
import { ManualClock } from "../../../../test/setup/manual-clock.ts";
import { ByteBudget } from "../../../base/byte-budget.ts";
import { Slots } from "../../../base/slots.ts";
import { newLines, pageOf, sendWatch, timeOf } from "./watch.ts";

const at = (milliseconds: number) => ({ occurred_at: new Date(milliseconds).toISOString() });
/** A log that grows between the calls, many lines of which have the same time, and of which some calls read nothing. */
const growing = fc.array(fc.array(fc.nat({ max: 2 }), { maxLength: 5 }), { maxLength: 8 }).map((steps) => {
  let time = 0;
  return steps.map((step) => step.map((later, line) => ({ ...at((time += later)), line })));
});

it("returns each line of a log that grows once, whatever their times are", async () => {
  await fc.assert(
    fc.asyncProperty(growing, fc.infiniteStream(fc.boolean()), async (steps, pauses) => {
      const log: { occurred_at: string }[] = [];
      let isPaused = false;
      const poll = newLines(
        (since) => Promise.resolve(isPaused ? [] : log.filter((line) => since === undefined || timeOf(line) >= since)),
        undefined,
        undefined,
      );
      const seen: object[] = [];
      for (const step of [...steps, []]) {
        log.push(...step);
        isPaused = step.length > 0 && pauses.next().value === true;
        seen.push(...(await poll()));
      }
      expect(seen).toEqual(log);
    }),
  );
});

it("begins after a cursor, and at a time", async () => {
  const log = [at(1), at(2), at(2), at(3)];
  const read = () => Promise.resolve(log);
  expect(await newLines(read, 2, 2)()).toEqual([at(3)]);
  expect(await newLines(read, 2, undefined)()).toEqual([at(2), at(2), at(3)]);
});

/** A server whose only route is a watch of what `found` returns next. */
async function watching(found: object[][]) {
  const clock = new ManualClock();
  const budget = new ByteBudget({ all: 2_000, ofAddress: 2_000 });
  const shared = { watches: new Slots(1), service: { clock, sandboxes: { current: () => ({}) } } };
  const sandbox = { metadata: { uid: "1", name: "a" } };
  const server = fastify();
  server.get("/", (request, reply) => {
    request.held = budget.open({ address: "a" });
    const call = {
      request,
      reply,
      caller: { key: "t/ci" },
      signal: new AbortController().signal,
      query: request.query,
    };
    const poll = () => Promise.resolve((found.shift() ?? []) as { occurred_at: string }[]);
    return sendWatch(shared as never, call as never, { sandbox: sandbox as never, type: "log", poll });
  });
  await server.listen({ port: 0, host: "127.0.0.1" });
  const url = `http://127.0.0.1:${(server.server.address() as AddressInfo).port}/`;
  return { clock, budget, server, url };
}

it("begins with a heartbeat before anything appears, and holds what it sends until it is sent", async () => {
  const small = { ...at(1), message: "x" };
  const { clock, budget, server, url } = await watching([[], [small], [{ ...at(2), message: "x".repeat(2_000) }]]);
  const answer = await fetch(url);
  const lines = createInterface(Readable.fromWeb(answer.body as never))[Symbol.asyncIterator]();
  const next = async (): Promise<unknown> => JSON.parse(String((await lines.next()).value));
  expect(await next()).toEqual({ type: "heartbeat", time: clock.now().toISOString() });
  expect(await (await fetch(url)).json()).toMatchObject({ message: "The API key t/ci has too many watches" });
  await expect.poll(() => clock.waits).toContain(1_000);
  clock.advance(1_000);
  expect([await next(), await next()]).toEqual([
    { type: "log", data: small },
    { type: "watermark", cursor: "1" },
  ]);
  await expect.poll(() => clock.waits).toContain(1_000);
  const other = budget.open({ address: "a" });
  other.hold(2_000);
  other.end();
  clock.advance(1_000);
  expect(await next()).toMatchObject({ type: "error", error: expect.stringContaining("2400 bytes") as string });
  expect((await lines.next()).done).toBe(true);
  await expect.poll(async () => (await fetch(`${url}?end_time=2030-01-01`)).text()).toContain("end_time");
  server.server.closeAllConnections();
  await Promise.all([server.close(), once(server.server, "close")]);
});

it("divides a list into pages without a loss, as a page has all items of its last time", () => {
  fc.assert(
    fc.property(growing, fc.integer({ min: 1, max: 4 }), (steps, limit) => {
      const all = steps.flat();
      const read: object[] = [];
      let cursor: number | undefined = -1;
      while (cursor !== undefined) {
        const since: number = cursor;
        const { page, next } = pageOf(
          all.filter((item) => timeOf(item) > since),
          limit,
        );
        read.push(...page);
        cursor = next.next_cursor === undefined ? undefined : Number(next.next_cursor);
      }
      expect(read).toEqual(all);
    }),
  );
});
