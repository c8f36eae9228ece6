import { expect, it } from "vitest";
import { ManualClock } from "../../../test/setup/manual-clock.ts";
import { RestartDelay } from "./restart-delay.ts";

it("doubles the delay up to five minutes, and begins again after a long run", () => {
  const delay = new RestartDelay(new ManualClock());
  const delays = Array.from({ length: 8 }, () => delay.next(1_000));
  expect(delays).toEqual([0, 10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000]);
  expect(delay.next(600_001)).toBe(0);
});
