import { expect, it } from "vitest";
import { parseStoredSnapshots } from "./check.ts";

it("reads a handle a line, with or without a time", () => {
  expect(parseStoredSnapshots("snap-1\n\n  snap-2\t2030-01-01T00:00:00Z\r\n")).toEqual([
    { handle: "snap-1", createdAt: undefined },
    { handle: "snap-2", createdAt: "2030-01-01T00:00:00Z" },
  ]);
  expect(() => parseStoredSnapshots("snap-1\nsnap-2 yesterday")).toThrow("Line 2");
});
