import fc from "fast-check";
import { expect, it } from "vitest";
import { quantityToBytes } from "../../base/quantity.ts";
import { quantityOf } from "./quantity-of.ts";

it("writes bytes with the largest suffix that is exact", () => {
  expect(["1Gi", "1536Mi", "1000", "0", "3Pi"].map((text) => quantityOf(quantityToBytes(text)))).toEqual([
    "1Gi",
    "1536Mi",
    "1000",
    "0",
    "3Pi",
  ]);
  fc.assert(
    fc.property(fc.maxSafeNat(), (bytes) => {
      expect(quantityToBytes(quantityOf(bytes))).toBe(bytes);
    }),
  );
});
