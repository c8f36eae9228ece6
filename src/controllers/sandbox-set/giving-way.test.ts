import { expect, it } from "vitest";
import { annotations, labels } from "../../api/labels.ts";
import { Sandbox } from "../../api/sandbox.ts";
import { GivingWay, setOfClone } from "./giving-way.ts";

function clone(claimedAt: Date): Sandbox {
  return Sandbox.parse({
    ...{ apiVersion: "agents.kruise.io/v1alpha1", kind: "Sandbox", spec: {} },
    metadata: {
      ...{ name: "s", namespace: "n", uid: "u", resourceVersion: "1", creationTimestamp: claimedAt.toISOString() },
      labels: { [labels.sandboxPool]: "set" },
      annotations: { [annotations.claimTimestamp]: claimedAt.toISOString(), [annotations.rollbackTo]: "c-1" },
    },
  });
}

it("gives way until the clone answers and a moment longer, and never for longer than a second", () => {
  let milliseconds = 0;
  const clock = {
    now: () => new Date(milliseconds),
    monotonicMilliseconds: () => milliseconds,
    schedule: () => () => undefined,
  };
  const giving = new GivingWay(clock);
  const one = clone(clock.now());
  expect(giving.milliseconds("set", [])).toBe(0);
  expect(giving.milliseconds("set", [one])).toBe(1_000);
  expect(setOfClone(one, clock.now())).toEqual(["n/set"]);
  milliseconds += 150;
  expect(giving.milliseconds("set", [one])).toBe(850);
  expect(giving.milliseconds("set", [])).toBe(100);
  expect(giving.milliseconds("another", [])).toBe(0);
  milliseconds += 100;
  expect(giving.milliseconds("set", [])).toBe(0);
  milliseconds += 1_000;
  expect(giving.milliseconds("set", [one])).toBe(0);
  expect(setOfClone(one, clock.now())).toEqual([]);
});
