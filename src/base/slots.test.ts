import { expect, it } from "vitest";
import { ManualClock } from "../../test/setup/manual-clock.ts";
import { Rates } from "./slots.ts";

it("lets a key send the requests of one second at once, and then one at a time", () => {
  const clock = new ManualClock();
  const rates = new Rates(clock);
  const sent = () => rates.take("a", 4) === 0;
  expect([sent(), sent(), sent(), sent(), sent()]).toEqual([true, true, true, true, false]);
  clock.advance(250);
  expect([sent(), sent()]).toEqual([true, false]);
  clock.advance(60_000);
  expect([sent(), sent(), sent(), sent(), sent()]).toEqual([true, true, true, true, false]);
});

it("counts each key separately, and says when to come back", () => {
  const rates = new Rates(new ManualClock());
  expect(rates.take("a", 1)).toBe(0);
  expect(rates.take("a", 1)).toBe(1);
  expect(rates.take("b", 1)).toBe(0);
  expect(Array.from({ length: 1000 }, () => rates.take("c", Infinity))).not.toContain(1);
});
