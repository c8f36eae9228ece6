import fc from "fast-check";
import { expect, it } from "vitest";
import { compare, pageOf } from "./cursor.ts";

const order = fc.constantFrom("asc" as const, "desc" as const);
const second = fc.integer({ min: 0, max: 5 }).map((at) => new Date(at * 1000).toISOString());
const items = fc.uniqueArray(fc.record({ time: second, id: fc.stringMatching(/^[a-z]{1,3}$/) }), {
  selector: ({ id }) => id,
  maxLength: 30,
});

it("returns each item on exactly one page, in order", () => {
  fc.assert(
    fc.property(items, order, fc.integer({ min: 1, max: 7 }), (all, direction, limit) => {
      const sorted = all.toSorted((a, b) => compare(a, b, direction));
      const seen = [];
      let nextToken: string | undefined;
      do {
        const page = pageOf(sorted, (item) => item, { limit, nextToken, order: direction });
        seen.push(...page.items);
        nextToken = page.nextToken;
      } while (nextToken !== undefined);
      expect(seen).toEqual(sorted);
    }),
  );
});

it("continues after an item that was deleted between two pages", () => {
  const all = ["a", "b", "c", "d"].map((id) => ({ time: "2030-01-01T00:00:00Z", id }));
  const first = pageOf(all, (item) => item, { limit: 2, order: "asc" });
  const rest = all.filter(({ id }) => id !== "b");
  const second = pageOf(rest, (item) => item, { limit: 2, nextToken: first.nextToken, order: "asc" });
  expect(second).toEqual({ items: [all[2], all[3]] });
});

it("rejects a token that it did not write, and one of the other order", () => {
  const all = ["a", "b"].map((id) => ({ time: "2030-01-01T00:00:00Z", id }));
  const page = (nextToken: string, direction: "asc" | "desc") =>
    pageOf(all, (item) => item, { limit: 1, nextToken, order: direction });
  const { nextToken = "" } = pageOf(all, (item) => item, { limit: 1, order: "asc" });
  expect(() => page(nextToken, "desc")).toThrow("Invalid next token");
  fc.assert(
    fc.property(fc.string(), (text) => {
      fc.pre(!text.startsWith("YXNj"));
      expect(() => page(text, "asc")).toThrow("Invalid next token");
    }),
  );
});
