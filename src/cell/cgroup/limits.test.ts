import { describe, expect, it } from "vitest";
import { inQuantity, outOfMemory } from "./limits.ts";

describe("what a person reads when a limit was broken", () => {
  it.each([
    [512 * 1024 ** 2, "512Mi"],
    [2 * 1024 ** 3, "2Gi"],
    [1536 * 1024 ** 2, "1536Mi"],
    [500_000_000, "477Mi"],
    [100, "100"],
  ])("%d bytes are %s", (bytes, quantity) => {
    expect(inQuantity(bytes)).toBe(quantity);
  });

  it("says what was the sandbox's part, where the Pod's limit is the cell's, too", () => {
    const bytes = 512 * 1024 ** 2;
    expect(outOfMemory({ declaredBytes: bytes, leafBytes: 416 * 1024 ** 2 }).message).toBe(
      "the sandbox used more than its memory limit of 512Mi (416Mi of it for the sandbox, the rest for its cell), so it was ended",
    );
    expect(outOfMemory({ declaredBytes: bytes, leafBytes: bytes }).message).toBe(
      "the sandbox used more than its memory limit of 512Mi, so it was ended",
    );
  });
});
