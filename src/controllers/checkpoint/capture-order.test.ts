import fc from "fast-check";
import { expect, it } from "vitest";
import { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { delaysPause, hasBegun, isPauseCheckpoint, earlierOf } from "../../api/state/checkpoint.ts";
import { otherCheckpoint } from "../sandbox/gather-checkpoints.ts";

interface Given {
  second: number;
  phase: "Pending" | "Creating" | "Succeeded" | undefined;
  isPause: boolean;
  hasPod: boolean;
  waits: boolean;
  isDeleted: boolean;
}

const checkpoint = (given: Partial<Given>, at: number): Checkpoint =>
  Checkpoint.parse({
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "Checkpoint",
    metadata: {
      name: `c-${at}`,
      namespace: "t",
      uid: `uid-${at}`,
      resourceVersion: "1",
      creationTimestamp: `2030-01-01T00:00:0${given.second ?? at}Z`,
      ...(given.isDeleted && { deletionTimestamp: "2030-01-01T00:01:00Z" }),
      ...(given.isPause && { labels: { "ramet.dev/purpose": "pause" } }),
      annotations: {
        ...(given.hasPod && { "ramet.dev/pod-uid": "uid-pod" }),
        ...(given.waits && { "ramet.dev/waits-turn": "true" }),
      },
    },
    spec: { sandboxName: "a" },
    ...(given.phase && { status: { phase: given.phase } }),
  });
const queues = fc
  .array(
    fc.record<Given>({
      second: fc.integer({ min: 0, max: 9 }),
      phase: fc.constantFrom(undefined, "Pending", "Creating", "Succeeded"),
      isPause: fc.boolean(),
      hasPod: fc.boolean(),
      waits: fc.boolean(),
      isDeleted: fc.boolean(),
    }),
    { minLength: 1, maxLength: 6 },
  )
  .map((all) => all.map(checkpoint));
const isDone = ({ status }: Checkpoint) => status?.phase === "Succeeded";
const isWithdrawn = (one: Checkpoint) => one.metadata.deletionTimestamp !== undefined && !hasBegun(one);

it("gives the turn to exactly one of the checkpoints that can be captured", () => {
  fc.assert(
    fc.property(queues, (all) => {
      const waiting = all.filter((one) => !isDone(one) && !isWithdrawn(one));
      const first = waiting.filter((one) => earlierOf(one, all) === undefined);
      expect(first).toHaveLength(waiting.length === 0 ? 0 : 1);
    }),
  );
});

it("never waits for a checkpoint that has ended, or that was deleted before its capture began", () => {
  fc.assert(
    fc.property(queues, (all) => {
      for (const one of all) {
        const earlier = earlierOf(one, all);
        if (earlier !== undefined) expect([isDone(earlier), isWithdrawn(earlier)]).toEqual([false, false]);
      }
      const other = otherCheckpoint(all);
      if (other !== undefined) expect([isDone(other), isWithdrawn(other)]).toEqual([false, false]);
    }),
  );
});

it("lets a pause go before all checkpoints whose captures have not begun", () => {
  fc.assert(
    fc.property(queues, (all) => {
      for (const pause of all.filter(isPauseCheckpoint)) {
        const earlier = earlierOf(pause, all);
        if (earlier !== undefined) expect(hasBegun(earlier) || isPauseCheckpoint(earlier)).toBe(true);
      }
    }),
  );
});

it("lets a pause wait for a capture that has begun, and not for a queue", () => {
  const queue = [1, 2, 3].map((at) => checkpoint({ waits: true, phase: "Pending" }, at));
  const begun = checkpoint({ waits: true, hasPod: true }, 4);
  const [first] = queue;
  expect(otherCheckpoint(queue)).toBe(first);
  expect(delaysPause(first!)).toBe(false);
  expect(otherCheckpoint([...queue, begun])).toBe(begun);
  expect(delaysPause(begun)).toBe(true);
});
