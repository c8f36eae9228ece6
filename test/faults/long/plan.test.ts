import fc from "fast-check";
import { expect, it } from "vitest";
import { batchOfFault, faultKindNames, faultKinds, planFaults, severityOf, type Batch } from "./plan.ts";

const options = fc.record({
  seed: fc.nat(),
  faults: fc.integer({ min: 1, max: 300 }),
  lanes: fc.integer({ min: 1, max: 6 }),
  kinds: fc.subarray(faultKindNames, { minLength: 1 }),
});
const faultsOf = (batches: readonly Batch[]) => batches.flatMap(({ faults }) => faults);

it("plans the same faults for the same seed, and others for another", () => {
  const of = (seed: number) => planFaults({ seed, faults: 100, lanes: 4, kinds: faultKindNames });
  expect(of(1)).toEqual(of(1));
  expect(of(1)).not.toEqual(of(2));
});

it("plans exactly the requested number of faults, numbered in order, of the requested kinds", () => {
  fc.assert(
    fc.property(options, (requested) => {
      const faults = faultsOf(planFaults(requested));
      expect(faults.map(({ index }) => index)).toEqual(Array.from({ length: requested.faults }, (_, index) => index));
      expect(faults.every(({ kind }) => requested.kinds.includes(kind))).toBe(true);
    }),
  );
});

it("hits each sandbox at most once in a batch, each part at most once, and only operations that exist", () => {
  fc.assert(
    fc.property(options, (requested) => {
      for (const { faults, operations } of planFaults(requested)) {
        expect(faults.every(({ lane }) => lane < operations.length)).toBe(true);
        const places = faults.map(({ kind, lane }) => (faultKinds[kind].scope === "part" ? kind : `${lane}`));
        expect(new Set(places).size).toBe(places.length);
      }
    }),
  );
});

it("covers every kind, step and operation within 1,000 faults", () => {
  const batches = planFaults({ seed: 3, faults: 1000, lanes: 4, kinds: faultKindNames });
  expect(new Set(faultsOf(batches).map(({ kind }) => kind)).size).toBe(faultKindNames.length);
  expect(new Set(faultsOf(batches).map(({ step }) => step)).size).toBe(3);
  expect(new Set(batches.flatMap(({ operations }) => operations)).size).toBe(6);
});

it("repeats one fault with its operation, kind, step and instant", () => {
  const batches = planFaults({ seed: 5, faults: 50, lanes: 4, kinds: faultKindNames });
  const batch = batches[2]!;
  const fault = batch.faults[1]!;
  expect(batchOfFault(batches, fault.index)).toEqual({
    number: 2,
    operations: [batch.operations[fault.lane]],
    faults: [{ ...fault, lane: 0 }],
  });
  expect(batchOfFault(batches, 50)).toBeUndefined();
});

it("allows a sandbox to be lost only where one of its processes is killed", () => {
  const fault = { index: 0, lane: 0, step: "request", delayMilliseconds: 0, lastsMilliseconds: 0 } as const;
  const batch: Batch = {
    number: 0,
    operations: ["checkpoint", "clone"],
    faults: [
      { ...fault, kind: "kill-cell" },
      { ...fault, kind: "kill-controller", lane: 1 },
    ],
  };
  expect([0, 1].map((lane) => severityOf(batch, lane))).toEqual(["deadly", "harmless"]);
});
