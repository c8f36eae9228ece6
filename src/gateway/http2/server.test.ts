import { expect, it } from "vitest";
import { ManualClock } from "../../../test/setup/manual-clock.ts";
import { resetLimit } from "./server.ts";

it("accepts 200 resets at once and 20 a second after that", () => {
  const clock = new ManualClock();
  const accept = resetLimit(clock);
  const accepted = (count: number): number => Array.from({ length: count }, accept).filter(Boolean).length;
  expect(accepted(300)).toBe(200);
  clock.advance(1_000);
  expect(accepted(300)).toBe(20);
  clock.advance(3_600_000);
  expect(accepted(300)).toBe(200);
});
