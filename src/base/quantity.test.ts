import fc from "fast-check";
import { expect, it } from "vitest";
import { bytesToQuantity, parseLayerSize, quantityToBytes, quantityToMillicores } from "./quantity.ts";

it.each([
  ["1Gi", 2 ** 30],
  ["512Mi", 2 ** 29],
  ["0.5Gi", 2 ** 29],
  ["1G", 1e9],
  ["1e9", 1e9],
  ["1E3", 1000],
  ["1E", 1e18],
  ["128974848", 128974848],
  [1024, 1024],
  ["100m", 1],
  ["1.0000000001", 2],
  ["0", 0],
])("converts %s to %d bytes", (quantity, bytes) => {
  expect(quantityToBytes(quantity)).toBe(bytes);
});

it.each([
  ["1", 1000],
  [2, 2000],
  [0.5, 500],
  ["0.1", 100],
  ["250m", 250],
  ["1500u", 2],
  ["1.001", 1001],
  ["1k", 1_000_000],
])("converts %s to %d millicores", (quantity, millicores) => {
  expect(quantityToMillicores(quantity)).toBe(millicores);
});

it.each(["", "Mi", "1 Gi", "1gi", "one", "1KiB", "."])("rejects %j and names the field", (quantity) => {
  expect(() => quantityToBytes(quantity, "limits.memory")).toThrow(/^limits\.memory is not a Kubernetes quantity/);
});

it("converts every notation of a whole number of millicores exactly", () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 1_000_000 }), (millicores) => {
      expect(quantityToMillicores(`${millicores}m`)).toBe(millicores);
      expect(quantityToMillicores((millicores / 1000).toFixed(3))).toBe(millicores);
    }),
  );
});

it("writes bytes with the largest suffix that is exact", () => {
  expect(["1Gi", "1536Mi", "1000", "0", "3Pi"].map((text) => bytesToQuantity(quantityToBytes(text)))).toEqual([
    "1Gi",
    "1536Mi",
    "1000",
    "0",
    "3Pi",
  ]);
  fc.assert(
    fc.property(fc.maxSafeNat(), (bytes) => {
      expect(quantityToBytes(bytesToQuantity(bytes))).toBe(bytes);
    }),
  );
});

it("names the size of a layer that is not a quantity, not positive or above the largest exact number", () => {
  expect(parseLayerSize("10Gi", "size")).toBe(10 * 1024 ** 3);
  const largest = String(Number.MAX_SAFE_INTEGER);
  expect(parseLayerSize(largest, "size")).toBe(Number.MAX_SAFE_INTEGER);
  expect(() => parseLayerSize("much", "The annotation")).toThrow("The annotation is not a Kubernetes quantity");
  expect(() => parseLayerSize("0", "The annotation")).toThrow('The annotation is not positive: "0"');
  for (const text of ["9007199254740992", "8Pi", "1E", "1e150"])
    expect(() => parseLayerSize(text, "The annotation")).toThrow(`The annotation is too large: "${text}"`);
});
