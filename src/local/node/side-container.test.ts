import { expect, it } from "vitest";
import { ManualClock } from "../../../test/setup/manual-clock.ts";
import { restartDelays } from "./side-container.ts";

it("doubles the delay up to five minutes, and begins again after a long run", () => {
  const next = restartDelays(new ManualClock());
  const delays = Array.from({ length: 8 }, () => next(1_000));
  expect(delays).toEqual([0, 10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000]);
  expect(next(600_001)).toBe(0);
});
