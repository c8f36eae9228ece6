import { describe, expect, it } from "vitest";
import { Checkpoint } from "../kinds/checkpoint.ts";
import { NamedSnapshot } from "../kinds/named-snapshot.ts";
import { SandboxSet } from "../kinds/sandbox-set.ts";
import { checkpointState, isCloneable } from "./checkpoint.ts";
import { isBuildFailure, snapshotState } from "./named-snapshot.ts";
import { type SandboxStatusOf, isStartRefused, sandboxState } from "./sandbox.ts";
import { hasExactStock, setState } from "./set.ts";

const at = "2030-01-01T00:00:00Z";
const metadata = { name: "a", namespace: "n", uid: "u", resourceVersion: "1", creationTimestamp: at, generation: 2 };
const condition = (type: string, status: "True" | "False", reason: string) => ({
  type,
  status,
  reason,
  message: "why",
  lastTransitionTime: at,
});

describe("a sandbox", () => {
  const ready = [condition("Ready", "True", "PodReady")];
  const unready = (reason: string) => [condition("Ready", "False", reason)];
  it.each<[string, Partial<SandboxStatusOf>, ReturnType<typeof sandboxState>]>([
    ["without a status", {}, { is: "starting", reason: "Pending" }],
    [
      "whose image is refused",
      { status: { phase: "Pending", conditions: unready("StartContainerFailed") } },
      { is: "starting", reason: "StartContainerFailed" },
    ],
    ["that answers", { status: { phase: "Running", conditions: ready } }, { is: "serving", reason: "Running" }],
    [
      "that is asked to pause",
      { spec: { paused: true }, status: { phase: "Running", conditions: ready } },
      { is: "serving", reason: "Running" },
    ],
    [
      "whose probes fail",
      { status: { phase: "Running", conditions: unready("SandboxNotReady") } },
      { is: "degraded", reason: "SandboxNotReady" },
    ],
    [
      "that is paused",
      { spec: { paused: true }, status: { phase: "Paused", conditions: unready("SandboxNotReady") } },
      { is: "paused", reason: "Paused" },
    ],
    ["whose resume is requested", { status: { phase: "Paused" } }, { is: "starting", reason: "Paused" }],
    ["that resumes", { status: { phase: "Resuming" } }, { is: "starting", reason: "Resuming" }],
    [
      "that failed",
      { status: { phase: "Failed", conditions: unready("ImageNotFound") } },
      { is: "ended", reason: "ImageNotFound" },
    ],
    ["that exited", { status: { phase: "Succeeded" } }, { is: "ended", reason: "Succeeded" }],
    [
      "that is being deleted",
      { metadata: { deletionTimestamp: at }, status: { phase: "Running", conditions: ready } },
      { is: "ended", reason: "Deleted" },
    ],
  ])("%s", (_, sandbox, state) => {
    expect(sandboxState({ metadata: {}, ...sandbox })).toEqual(state);
    expect(isStartRefused({ metadata: {}, ...sandbox })).toBe(state.reason === "StartContainerFailed");
  });
});

it.each([
  [undefined, false, "unfinished"],
  ["Pending", true, "unfinished"],
  ["Creating", true, "unfinished"],
  ["Succeeded", false, "succeeded"],
  ["Succeeded", true, "deleting"],
  ["Failed", true, "failed"],
  ["Terminating", true, "deleting"],
])("a checkpoint in the phase %s, deleted: %s, is %s", (phase, isDeleted, state) => {
  const checkpoint = Checkpoint.parse({
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "Checkpoint",
    metadata: { ...metadata, ...(isDeleted && { deletionTimestamp: at }) },
    spec: { sandboxName: "s" },
    status: { phase },
  });
  expect(checkpointState(checkpoint)).toBe(state);
  expect(isCloneable(checkpoint)).toBe(state === "succeeded");
});

describe("a named snapshot", () => {
  it.each([
    [["True", "RunningStep", 2], "building", false],
    [["True", "RunningStep", 1], "waiting", false],
    [["False", "Built", 2], "current", false],
    [["False", "Pinned", 2], "held", false],
    [["False", "Suspended", 2], "held", false],
    [["False", "StepFailed", 2], "failed", true],
    [["False", "QuotaExceeded", 2], "failed", true],
    [["False", "InputMissing", 2], "failed", false],
    [["False", "Deleting", 2], "deleting", false],
  ] as const)("whose condition Building is %j is %s", ([status, reason, seen], is, failed) => {
    const snapshot = NamedSnapshot.parse({
      apiVersion: "ramet.dev/v1alpha1",
      kind: "NamedSnapshot",
      metadata,
      spec: { from: { template: { name: "t" } } },
      status: { observedGeneration: seen, conditions: [condition("Building", status, reason)] },
    });
    expect(snapshotState(snapshot)).toEqual({ is, reason, message: "why" });
    expect(isBuildFailure(snapshotState(snapshot))).toBe(failed);
  });
});

describe("a set", () => {
  const set = (conditions: unknown[], observedGeneration = 2, replicas = 3) =>
    SandboxSet.parse({
      apiVersion: "agents.kruise.io/v1alpha1",
      kind: "SandboxSet",
      metadata,
      spec: { replicas: 3, templateRef: { name: "t" } },
      status: { observedGeneration, replicas, availableReplicas: 3, conditions },
    });
  const [ready, updated] = [condition("Ready", "True", "Available"), condition("Updated", "True", "AllUpdated")];
  it.each([
    ["is ready", [ready, updated], "ready"],
    ["rolls", [ready, condition("Updated", "False", "RollingUpdate")], "filling"],
    ["fills", [condition("Ready", "False", "Filling"), updated], "filling"],
    ["waits for the first version of its snapshot", [condition("Ready", "False", "CheckpointNotReady")], "filling"],
    ["has no template", [condition("Ready", "False", "NotFound")], "failing"],
    ["has an invalid template", [condition("Ready", "False", "InvalidArgument")], "failing"],
    ["does not start", [condition("Ready", "False", "StartFailing"), updated], "failing"],
  ])("that %s", (_, conditions, is) => {
    expect(setState(set(conditions)).is).toBe(is);
    expect(setState(set(conditions, 1)).is).toBe("waiting");
  });

  it("has exactly its stock when no sandbox is left to delete", () => {
    expect([hasExactStock(set([])), hasExactStock(set([], 2, 4)), hasExactStock(set([], 1))]).toEqual([
      true,
      false,
      false,
    ]);
  });
});
