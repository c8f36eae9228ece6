import { describe, expect, it } from "vitest";
import { inQuantity, outOfMemory } from "./plan.ts";

describe("errors of exceeded limits", () => {
  it.each([
    [512 * 1024 ** 2, "512Mi"],
    [2 * 1024 ** 3, "2Gi"],
    [1536 * 1024 ** 2, "1536Mi"],
    [500_000_000, "477Mi"],
    [100, "100"],
  ])("formats %d bytes as %s", (bytes, quantity) => {
    expect(inQuantity(bytes)).toBe(quantity);
  });

  it("names the sandbox's share if the cell shares the Pod's limit", () => {
    const bytes = 512 * 1024 ** 2;
    expect(outOfMemory({ declaredBytes: bytes, leafBytes: 416 * 1024 ** 2 }).message).toBe(
      "the sandbox was killed: it exceeded its memory limit of 512Mi (416Mi for the sandbox, the rest for its cell)",
    );
    expect(outOfMemory({ declaredBytes: bytes, leafBytes: bytes }).message).toBe(
      "the sandbox was killed: it exceeded its memory limit of 512Mi",
    );
  });
});
