import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { backoffOf, nextFailures, type Failures } from "./failures.ts";

let uid = 0;
const at = (milliseconds: number, ended: string[], revisionHash = "a") => ({
  revisionHash,
  now: new Date(milliseconds),
  monotonicMilliseconds: milliseconds,
  random: () => 1,
  ended: ended.map((message) => ({ uid: String(++uid), message })),
});

describe("nextFailures", () => {
  it("waits not at all after the first failure, and then doubles the pause up to five minutes", () => {
    let failures: Failures | undefined;
    let now = 0;
    const pauses = Array.from({ length: 12 }, () => {
      failures = nextFailures(failures, at(now, ["broke"]));
      const { waitMilliseconds } = backoffOf(failures, now);
      now += waitMilliseconds + 1;
      return waitMilliseconds / 1000;
    });
    expect(pauses).toEqual([0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
  });

  it("counts the failures of one batch as one, and a failure that is seen twice once", () => {
    const two = nextFailures(nextFailures(undefined, at(0, ["a"])), at(1, ["b"]));
    expect(two?.inARow).toBe(2);
    expect(nextFailures(two, at(2, ["c", "d"]))?.inARow).toBe(2);
    const seen = at(0, ["a"]);
    const once = nextFailures(undefined, seen);
    expect(nextFailures(once, { ...seen, monotonicMilliseconds: 50 })).toBe(once);
  });

  it("forgets failures a minute after the pause, and for another revision", () => {
    const two = nextFailures(nextFailures(undefined, at(0, ["a"])), at(1, ["b"]));
    expect(nextFailures(two, at(60_000, []))).toBe(two);
    expect(nextFailures(two, at(61_100, []))).toBeUndefined();
    expect(nextFailures(two, at(2, [], "b"))).toBeUndefined();
    expect(nextFailures(two, at(2, ["c"], "b"))?.inARow).toBe(1);
  });

  it("keeps a failure for as long as the next attempt takes, and reports a conclusive one the first time", () => {
    const failed = nextFailures(undefined, { ...at(0, []), ended: [{ uid: "x", message: "", isConclusive: true }] });
    const trying = { ...at(180_000, []), isUnproven: () => true };
    expect(nextFailures(failed, trying)).toBe(failed);
    expect(backoffOf(failed, 180_000)).toMatchObject({ inARow: 1, isConclusive: true });
    expect(nextFailures(failed, { ...trying, ended: [{ uid: "y", message: "" }] })).toMatchObject({ inARow: 2 });
    expect(nextFailures(failed, { ...trying, isUnproven: () => false })).toBeUndefined();
  });

  it("never pauses for longer than five minutes", () => {
    const step = fc.record({ passed: fc.nat({ max: 400_000 }), ended: fc.nat({ max: 3 }) });
    fc.assert(
      fc.property(fc.array(step), (steps) => {
        let failures: Failures | undefined;
        let now = 0;
        for (const { passed, ended } of steps) {
          now += passed;
          failures = nextFailures(failures, at(now, Array<string>(ended).fill("x")));
          expect(backoffOf(failures, now).waitMilliseconds).toBeLessThanOrEqual(300_000);
        }
        expect(backoffOf(failures, now + 300_000).waitMilliseconds).toBe(0);
      }),
    );
  });
});
