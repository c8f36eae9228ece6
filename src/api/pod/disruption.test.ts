import { expect, it } from "vitest";
import { annotations } from "../names/labels.ts";
import { Pod } from "../schema/pod.ts";
import { automaticCheckpointsOf } from "./disruption.ts";

const { checkpointEvery, checkpointsKept, onDisruption } = annotations;
const podWith = (given: Record<string, string>): Pod =>
  Pod.parse({
    metadata: { name: "a", namespace: "t", uid: "u", resourceVersion: "1", creationTimestamp: "", annotations: given },
    spec: { containers: [{ name: "main", image: "cell" }] },
  });

it.each([
  [
    { [checkpointEvery]: "10m", [onDisruption]: "Migrate" },
    { everyMilliseconds: 600_000, kept: 2 },
  ],
  [
    { [checkpointEvery]: "1m", [checkpointsKept]: "5", [onDisruption]: "Pause" },
    { everyMilliseconds: 60_000, kept: 5 },
  ],
  [{ [checkpointEvery]: "10m", [onDisruption]: "End" }, undefined],
  [{ [checkpointEvery]: "none" }, undefined],
  [{}, undefined],
])("takes automatic checkpoints of a Pod with %j as %j", (given, expected) => {
  expect(automaticCheckpointsOf(podWith(given))).toEqual(expected);
});
