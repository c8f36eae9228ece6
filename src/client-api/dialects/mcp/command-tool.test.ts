import fc from "fast-check";
import { expect, it } from "vitest";
import { LimitedOutput } from "./command-tool.ts";

const outputOf = (parts: readonly string[], limit: number): LimitedOutput => {
  const output = new LimitedOutput(limit);
  for (const part of parts) output.add(Buffer.from(part));
  return output;
};

it("returns an output within the limit as it is", () => {
  fc.assert(
    fc.property(fc.array(fc.string({ maxLength: 10 }), { maxLength: 10 }), (parts) => {
      expect(outputOf(parts, 2000).toString()).toBe(parts.join(""));
    }),
  );
});

it("keeps the start and the end of a longer output, and counts the rest", () => {
  const output = outputOf(["0123", "45678", "9abcdef"], 8);
  expect(output.toString()).toBe("0123\n[8 bytes are left out]\ncdef");
  expect(output.leftOutBytes).toBe(8);
});
