import fc from "fast-check";
import { expect, it } from "vitest";
import { expandedCapacity, isInRange, newCapacity } from "./volumes.ts";

const bytes = fc.nat({ max: 1_000 });
const range = fc.record({ requiredBytes: bytes, limitBytes: bytes });

it("chooses a capacity in the range, and never less than the source or the volume has", () => {
  fc.assert(
    fc.property(range, bytes, (given, has) => {
      for (const choose of [newCapacity, expandedCapacity]) {
        let capacity: number;
        try {
          capacity = choose(given, has);
        } catch (error) {
          expect(error).toMatchObject({ code: expect.stringMatching(/^(OutOfRange|InvalidArgument)$/) as string });
          continue;
        }
        expect(capacity).toBeGreaterThanOrEqual(has);
        expect(isInRange(capacity, given)).toBe(true);
      }
    }),
  );
});

it("gives a volume whose size nobody requests 1 GiB, or the size of its source", () => {
  expect(newCapacity()).toBe(1024 ** 3);
  expect(newCapacity(undefined, 5)).toBe(5);
  expect(newCapacity({ requiredBytes: 0, limitBytes: 100 })).toBe(100);
});
