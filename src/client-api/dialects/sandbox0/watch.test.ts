import fc from "fast-check";
import { expect, it } from "vitest";
import { newLines, pageOf, timeOf } from "./watch.ts";

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
        (since) =>
          Promise.resolve(isPaused ? [] : log.filter((line) => since === undefined || timeOf(line) >= since)),
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
