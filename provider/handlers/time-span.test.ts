import { expect, it } from "vitest";
import { parseTimeSpan } from "./time-span.ts";

it("parses durations in words and in the short form", () => {
  expect(parseTimeSpan("8 hours", "lifetime")).toBe(8 * 3_600_000);
  expect(parseTimeSpan("1 day", "lifetime")).toBe(86_400_000);
  expect(parseTimeSpan("1.5 minutes", "timeout")).toBe(90_000);
  expect(parseTimeSpan("1h30m", "timeout")).toBe(5_400_000);
});

it.each(["soon", "8 moons", "0 hours", "-1h", ""])("rejects %j and names the field", (text) => {
  expect(() => parseTimeSpan(text, "lifetime")).toThrow(/lifetime/);
});
