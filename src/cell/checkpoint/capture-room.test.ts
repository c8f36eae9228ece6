import { describe, expect, it } from "vitest";
import { planCapture } from "./capture-room.ts";

const mebibyte = 1024 ** 2;
const state = {
  limitBytes: 640 * mebibyte,
  usedBytes: 250 * mebibyte,
  writtenBytes: 150 * mebibyte,
  acceptsDirect: true,
};
/** A sandbox that has so many MiB, next to 100 MiB of gVisor and the cell. */
const holding = (mebibytes: number) => ({
  ...state,
  usedBytes: (mebibytes + 100) * mebibyte,
  writtenBytes: mebibytes * mebibyte,
});

describe("planCapture", () => {
  it("uses the page cache where nothing limits it, or where the image fits", () => {
    expect(planCapture({ ...state, limitBytes: undefined })).toBe("cached");
    for (const acceptsDirect of [true, false]) expect(planCapture({ ...state, acceptsDirect })).toBe("cached");
  });

  it("writes past the page cache where the image does not fit, however many files are on disk", () => {
    expect(planCapture(holding(400))).toBe("direct");
    expect(planCapture({ ...state, writtenBytes: 9_000 * mebibyte })).toBe("direct");
  });

  it.each([
    ["memory without room", holding(500), "48Mi of memory, and 40Mi", "free memory in the sandbox"],
    ["memory beyond the limit", holding(600), "48Mi of memory, and 0", "free memory"],
    ["memory into a tmpfs", { ...holding(400), acceptsDirect: false }, "448Mi of memory, and 140Mi", "on a disk"],
  ])("refuses a capture that would end the sandbox: %s", (_, refused, why, hint) => {
    expect(planCapture(refused)).toMatchObject({
      code: "CaptureRefused",
      message: `capturing the sandbox was refused: it can need ${why} of the container's 640Mi are free`,
      hint: expect.stringContaining(hint) as string,
    });
  });
});
