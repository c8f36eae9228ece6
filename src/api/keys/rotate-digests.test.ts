import fc from "fast-check";
import { expect, it } from "vitest";
import { unexpired, rotatedDigests } from "./api-key-rules.ts";

const now = new Date("2030-01-01T00:00:00Z");
const after = (seconds: number) => new Date(now.getTime() + seconds * 1000);
const digestOf = (digit: string) => `sha256:${digit.repeat(64)}`;
const fresh = digestOf("f");
const rotate = (digests: Parameters<typeof rotatedDigests>[0], seconds: number) =>
  rotatedDigests(digests, { digest: fresh, now, graceMilliseconds: seconds * 1000 });

it("lets the previous value expire after the grace period, and the new one never", () => {
  expect(rotate([{ digest: digestOf("a") }], 3600)).toEqual([
    { digest: fresh },
    { digest: digestOf("a"), expiresAt: "2030-01-01T01:00:00.000Z" },
  ]);
});

it("keeps an earlier end, shortens a later one, and drops what has expired", () => {
  const digests = [
    { digest: digestOf("a"), expiresAt: "2030-01-01T00:30:00Z" },
    { digest: digestOf("b"), expiresAt: "2031-01-01T00:00:00Z" },
    { digest: digestOf("c"), expiresAt: "2030-01-01T00:00:00Z" },
  ];
  expect(rotate(digests, 3600)).toEqual([
    { digest: fresh },
    { digest: digestOf("a"), expiresAt: "2030-01-01T00:30:00Z" },
    { digest: digestOf("b"), expiresAt: "2030-01-01T01:00:00.000Z" },
  ]);
});

it("accepts nothing but the new value without a grace period", () => {
  expect(rotate([{ digest: digestOf("a") }, { digest: digestOf("b") }], 0)).toEqual([{ digest: fresh }]);
});

it("changes nothing if it is repeated", () => {
  const once = rotate([{ digest: digestOf("a") }], 60);
  expect(rotate(once, 60)).toEqual(once);
});

it.each([-1, 3650 * 86_400 + 1])("refuses a grace period of %d seconds", (seconds) => {
  expect(() => rotate([], seconds)).toThrow("The grace period must be from 0 to 3650d");
});

it("refuses to drop a value that was promised to work", () => {
  const digests = ["a", "b", "c", "d"].map((digit) => ({ digest: digestOf(digit) }));
  expect(() => rotate(digests, 60)).toThrow("The key has 4 values that have not expired, and at most 4");
  expect(rotate(digests, 0)).toHaveLength(1);
});

it("accepts during the grace period what was accepted before and has not expired, and afterwards only the new value", () => {
  const life = fc.option(fc.integer({ min: -10, max: 20 }), { nil: undefined });
  fc.assert(
    fc.property(
      fc.array(life, { maxLength: 3 }),
      fc.integer({ min: 0, max: 10 }),
      fc.integer({ min: 0, max: 20 }),
      (lives, grace, later) => {
        const digests = lives.map((seconds, index) => ({
          digest: digestOf(String(index)),
          ...(seconds !== undefined && { expiresAt: after(seconds).toISOString() }),
        }));
        const accepted = unexpired(rotate(digests, grace), after(later)).map(({ digest }) => digest);
        const expected = later < grace ? unexpired(digests, after(later)).map(({ digest }) => digest) : [];
        expect(accepted).toEqual([fresh, ...expected]);
      },
    ),
  );
});
