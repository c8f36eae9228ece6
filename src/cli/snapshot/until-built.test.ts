import { expect, it } from "vitest";
import { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import { hasEnded } from "./until-built.ts";

function snapshot(reason: string): NamedSnapshot {
  return NamedSnapshot.parse({
    apiVersion: "ramet.dev/v1alpha1",
    kind: "NamedSnapshot",
    metadata: {
      uid: "u",
      resourceVersion: "1",
      creationTimestamp: "2030-01-01T00:00:00Z",
      name: "a",
      namespace: "default",
      annotations: { "ramet.dev/build-request": "now" },
    },
    spec: { from: { template: { name: "python" } } },
    status: {
      observedGeneration: 1,
      conditions: [
        { type: "Building", status: "False", reason, message: "why", lastTransitionTime: "2030-01-01T00:00:00Z" },
      ],
    },
  });
}

it("does not wait for a requested build whose input is missing", () => {
  expect(hasEnded(snapshot("InputMissing"), 1, "now")).toBe(true);
  expect(hasEnded(snapshot("StepFailed"), 1, "now")).toBe(false);
});
