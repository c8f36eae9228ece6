import { expect, it } from "vitest";
import { parseTimeSpan } from "./time-span.ts";

it("reads what people write, and the short form", () => {
  expect(parseTimeSpan("8 hours", "lifetime")).toBe(8 * 3_600_000);
  expect(parseTimeSpan("1 day", "lifetime")).toBe(86_400_000);
  expect(parseTimeSpan("1.5 minutes", "timeout")).toBe(90_000);
  expect(parseTimeSpan("1h30m", "timeout")).toBe(5_400_000);
});

it.each(["soon", "8 moons", "0 hours", "-1h", ""])("refuses %j with the field's name", (text) => {
  expect(() => parseTimeSpan(text, "lifetime")).toThrow(/lifetime/);
});
