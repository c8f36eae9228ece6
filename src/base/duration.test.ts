import { describe, expect, it } from "vitest";
import { goDurationPattern, parseDuration, ttlPattern } from "./duration.ts";

describe("parseDuration", () => {
  it.each([
    ["30s", 30_000],
    ["30m", 1_800_000],
    ["30h", 108_000_000],
    ["30d", 2_592_000_000],
    ["1m30s", 90_000],
    ["1h0m0s", 3_600_000],
    ["1.5h", 5_400_000],
    ["250ms", 250],
    ["100us", 0.1],
    ["-1s", -1000],
    ["0", 0],
  ])("parses %s as %d ms", (text, milliseconds) => {
    expect(parseDuration(text)).toBe(milliseconds);
  });

  it.each(["", "30", "s", "30 s", "1h-5m", "30x", "soon", "1h30", "+", "3 0s"])(
    "rejects %j and names the field",
    (text) => {
      expect(() => parseDuration(text, "spec.ttlAfterFinished")).toThrow(
        expect.objectContaining({
          code: "InvalidArgument",
          message: expect.stringContaining("spec.ttlAfterFinished") as string,
        }),
      );
    },
  );

  it("parses every duration that the CRD patterns accept", () => {
    for (const text of ["30s", "30d", "1d12h", "1.5h", "1m30s", "10ms"]) {
      expect(ttlPattern.test(text)).toBe(true);
      expect(parseDuration(text)).toBeGreaterThan(0);
    }
    for (const text of ["0", "1m", "-60m", "1.h", ".5s"]) {
      expect(goDurationPattern.test(text)).toBe(true);
      expect(Number.isFinite(parseDuration(text))).toBe(true);
    }
  });
});
