import { expect, it } from "vitest";
import type { SandboxSetStatus } from "../../api/kinds/sandbox-set.ts";
import { StatusPace } from "./conditions.ts";

it("writes transitions immediately, and changed numbers four times a second", () => {
  let milliseconds = 0;
  const pace = new StatusPace({
    now: () => new Date(milliseconds),
    monotonicMilliseconds: () => milliseconds,
    schedule: () => () => undefined,
  });
  const filling = (availableReplicas: number): SandboxSetStatus => ({
    replicas: 9,
    availableReplicas,
    conditions: [
      {
        type: "Ready",
        status: "False",
        reason: "Filling",
        message: `${availableReplicas} of 9 sandboxes are available`,
        lastTransitionTime: "2030-01-01T00:00:00Z",
      },
    ],
  });
  expect(pace.millisecondsUntil("a", undefined, filling(0))).toBe(0);
  pace.written("a");
  milliseconds = 100;
  expect(pace.millisecondsUntil("a", filling(0), filling(1))).toBe(150);
  expect(pace.millisecondsUntil("b", filling(0), filling(1))).toBe(0);
  expect(pace.millisecondsUntil("a", filling(0), { ...filling(1), updateRevision: "x" })).toBe(0);
  milliseconds = 260;
  expect(pace.millisecondsUntil("a", filling(0), filling(1))).toBe(0);
  pace.written("a");
  pace.forget("a");
  expect(pace.millisecondsUntil("a", filling(0), filling(1))).toBe(0);
});
