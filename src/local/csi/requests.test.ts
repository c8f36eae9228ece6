import { expect, it } from "vitest";
import { pageOf } from "./requests.ts";

const entry = (n: number) => ({ id: `vol-${String(n).padStart(40, "0")}`, createdAt: `2030-01-01T00:00:0${n}.000Z` });
const three = [entry(1), entry(2), entry(3)];

it("returns all entries page by page, also if the first entry of the next page is deleted and another one is added", () => {
  const first = pageOf(three, { maxEntries: 1, startingToken: "" });
  expect(first.page).toEqual([entry(1)]);
  const changed = [entry(1), entry(3), entry(4)];
  const second = pageOf(changed, { maxEntries: 2, startingToken: first.nextToken });
  expect(second).toEqual({ page: [entry(3), entry(4)], nextToken: "" });
  expect(pageOf(three, { maxEntries: 0, startingToken: "" }).page).toEqual(three);
});

it("refuses a token that is none", () => {
  expect(() => pageOf(three, { maxEntries: 1, startingToken: "2" })).toThrow("the starting token");
});
