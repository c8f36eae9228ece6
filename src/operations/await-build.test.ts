import { expect, it } from "vitest";
import type { NamedSnapshot } from "../api/kinds/named-snapshot.ts";
import { annotations } from "../api/names/labels.ts";
import { isBuildOver, settlingMilliseconds } from "./await-build.ts";

const requested = "2030-01-01T00:00:00Z";

/** A named snapshot of generation 2, whose condition `Building` is False with this reason. */
function snapshot(reason: string, { digest = "a", heard = requested, observed = 2 } = {}): NamedSnapshot {
  return {
    metadata: { name: "a", namespace: "t", generation: 2, annotations: { [annotations.buildRequest]: requested } },
    status: {
      observedGeneration: observed,
      conditions: [{ type: "Building", status: "False", reason, message: "" }],
      build: { digest, request: heard },
    },
  } as unknown as NamedSnapshot;
}

const build = { digest: "a", request: requested, generation: 2 };

it.each([
  ["the failure of a requested build ends it", snapshot("StepFailed"), true],
  ["a failure of an unheard request keeps waiting", snapshot("StepFailed", { heard: "2029-12-31T00:00:00Z" }), false],
  ["a failure before the generation was observed keeps waiting", snapshot("StepFailed", { observed: 1 }), false],
  ["a failure of other inputs keeps waiting", snapshot("StepFailed", { digest: "b" }), false],
  ["a missing input keeps waiting", snapshot("InputMissing"), false],
  ["a circle of named snapshots ends it", snapshot("Cycle"), true],
  ["a pin ends it", snapshot("Pinned"), true],
  ["a deletion ends it", undefined, true],
])("%s", (_, seen, isOver) => {
  expect(isBuildOver(seen, build, 0)).toBe(isOver);
});

it("counts a failure of other inputs and a missing input when the controllers have had time to see recent changes", () => {
  for (const seen of [snapshot("StepFailed", { digest: "b" }), snapshot("InputMissing")])
    expect(isBuildOver(seen, build, settlingMilliseconds)).toBe(true);
  expect(isBuildOver(snapshot("StepFailed", { heard: "earlier" }), build, settlingMilliseconds)).toBe(false);
});
