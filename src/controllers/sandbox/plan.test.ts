import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { RametError } from "../../api/errors.ts";
import { labels } from "../../api/labels.ts";
import { Checkpoint } from "../../api/checkpoint.ts";
import { Pod } from "../../api/pod.ts";
import { parsePodTemplate } from "../../api/pod-template.ts";
import { Sandbox, type SandboxPhase } from "../../api/sandbox.ts";
import { planSandbox } from "./plan.ts";
import type { Origin, SandboxState } from "./state.ts";

const now = new Date("2030-01-01T00:00:00Z");
const apiVersion = "agents.kruise.io/v1alpha1";
const meta = (name: string, rest: object = {}) => ({
  ...{ name, namespace: "t", uid: `uid-${name}`, resourceVersion: "1", creationTimestamp: now.toISOString() },
  ...rest,
});
const template = parsePodTemplate({ spec: { containers: [{ name: "main", image: "python" }] } });
const error = new RametError("EngineFailed", "restore: it was refused");

const pods = fc
  .record({
    phase: fc.constantFrom("Pending", "Running", "Succeeded", "Failed"),
    going: fc.boolean(),
    ready: fc.constantFrom("True", "False"),
    uid: fc.constantFrom("uid-pod", "uid-other"),
  })
  .map(({ phase, going, ready, uid }) =>
    Pod.parse({
      metadata: meta("a", { uid, ...(going && { deletionTimestamp: now.toISOString() }) }),
      spec: { containers: [{ name: "main", image: "cell" }] },
      status: { phase, podIP: "127.0.0.1", conditions: [{ type: "Ready", status: ready }] },
    }),
  );
const checkpoints = fc.constantFrom("Pending", "Creating", "Succeeded", "Failed").map((phase) =>
  Checkpoint.parse({
    apiVersion,
    kind: "Checkpoint",
    metadata: meta("a-pause", { labels: { [labels.sandboxName]: "a" } }),
    spec: { sandboxName: "a" },
    status: { phase },
  }),
);
const origins = fc.constantFrom<Origin>(
  { kind: "new" },
  { kind: "waiting", message: "Waiting" },
  { kind: "impossible", error },
  {
    kind: "checkpoint",
    source: {
      handle: { namespace: "t", checkpointId: "c" },
      manifestDigest: `sha256:${"0".repeat(64)}`,
      contents: ["memory", "filesystem"],
    },
  },
);
const conditions = fc.constantFrom(
  "CheckpointCreating",
  "CheckpointSucceeded",
  "SnapshotPauseSucceed",
  "StopPauseSucceed",
);
const sandboxes = fc
  .record({
    phase: fc.constantFrom<SandboxPhase | undefined>(
      ...([undefined, "Pending", "Running", "Paused", "Resuming", "Succeeded", "Failed", "Upgrading"] as const),
    ),
    paused: fc.boolean(),
    going: fc.boolean(),
    finalizer: fc.boolean(),
    pausedReason: fc.option(conditions),
    shutdownTime: fc.constantFrom(undefined, "2029-01-01T00:00:00Z", "2031-01-01T00:00:00Z"),
    pauseTime: fc.constantFrom(undefined, "2029-01-01T00:00:00Z", "2031-01-01T00:00:00Z"),
  })
  .map(({ phase, paused, going, finalizer, pausedReason, shutdownTime, pauseTime }) =>
    Sandbox.parse({
      apiVersion,
      kind: "Sandbox",
      metadata: meta("a", {
        ...(going && { deletionTimestamp: now.toISOString() }),
        ...(finalizer && { finalizers: ["agents.kruise.io/sandbox"] }),
      }),
      spec: { paused, ...(shutdownTime && { shutdownTime }), ...(pauseTime && { pauseTime }) },
      status: {
        ...(phase && { phase }),
        podInfo: { podUID: "uid-pod" },
        conditions:
          pausedReason === null
            ? []
            : [
                {
                  type: "SandboxPaused",
                  status: pausedReason.endsWith("PauseSucceed") ? "True" : "False",
                  reason: pausedReason,
                  message: "",
                  lastTransitionTime: now.toISOString(),
                },
              ],
      },
    }),
  );
const states: fc.Arbitrary<SandboxState> = fc.record({
  sandbox: sandboxes,
  pod: fc.option(pods, { nil: undefined }),
  foreignPod: fc.constant(undefined),
  template: fc.constantFrom(
    { template, borrowed: false, persistentContents: [], pauseStrategy: undefined, volumeClaims: [] },
    { template, borrowed: false, persistentContents: [], pauseStrategy: "Stop", volumeClaims: [] },
    { problem: error },
  ),
  origin: origins,
  start: fc.constantFrom<SandboxState["start"]>(
    undefined,
    { state: "running", failures: 0 },
    { state: "failed", error },
    { state: "done", value: { state: { phase: "running", generation: 1, ready: true }, phases: {} } },
  ),
  pauseCheckpoint: fc.option(checkpoints, { nil: undefined }),
  leftovers: fc.array(checkpoints, { maxLength: 1 }),
  otherCheckpoint: fc.constant(undefined),
  slow: fc.boolean(),
  now: fc.constant(now),
});
const doing = (state: SandboxState) => planSandbox(state).actions.map((action) => action.do);

describe("planSandbox", () => {
  it("starts contents only in a Pod that runs and stays, and never twice", () => {
    fc.assert(
      fc.property(states, (state) => {
        if (!doing(state).includes("startSandbox")) return;
        expect(state.pod?.status?.phase).toBe("Running");
        expect(state.pod?.metadata.deletionTimestamp).toBeUndefined();
        expect(state.start).toBeUndefined();
      }),
    );
  });

  it("makes a Pod only where there is none, and of nothing impossible", () => {
    fc.assert(
      fc.property(states, (state) => {
        if (!doing(state).includes("createPod")) return;
        expect(state.pod).toBeUndefined();
        expect(["new", "checkpoint"]).toContain(state.origin.kind);
      }),
    );
  });

  it("lets a Sandbox go only when its Pod has gone, and never deletes a Pod that runs unasked", () => {
    fc.assert(
      fc.property(states, (state) => {
        const { metadata, status } = state.sandbox;
        const done = doing(state);
        if (done.includes("removeFinalizer")) expect(state.pod).toBeUndefined();
        if (done.includes("deletePod"))
          expect(metadata.deletionTimestamp !== undefined || status?.phase === "Paused").toBe(true);
      }),
    );
  });

  it("pauses with a checkpoint only after that has succeeded", () => {
    fc.assert(
      fc.property(states, (state) => {
        const { sandbox, pauseCheckpoint, template: resolved } = state;
        const plan = planSandbox(state);
        if (sandbox.status?.phase !== "Running" || plan.status?.phase !== "Paused") return;
        const stops = !("problem" in resolved) && resolved.pauseStrategy === "Stop" && pauseCheckpoint === undefined;
        expect(stops || pauseCheckpoint?.status?.phase === "Succeeded").toBe(true);
      }),
    );
  });

  it("does nothing about phases that have ended or are another controller's, but keeps the timers", () => {
    fc.assert(
      fc.property(states, (state) => {
        const { metadata, status } = state.sandbox;
        if (metadata.deletionTimestamp !== undefined) return;
        if (!["Succeeded", "Failed", "Upgrading"].includes(status?.phase ?? "")) return;
        const { actions, status: written } = planSandbox(state);
        expect(written).toBeUndefined();
        expect(actions.filter((action) => action.do !== "deleteSandbox")).toEqual([]);
      }),
    );
  });

  it("says in every status that is not Running or Succeeded why the sandbox is not Ready", () => {
    fc.assert(
      fc.property(states, (state) => {
        const { status } = planSandbox(state);
        if (status === undefined || ["Running", "Paused", "Resuming"].includes(status.phase ?? "")) return;
        const ready = status.conditions?.find(({ type }) => type === "Ready");
        expect(ready).toMatchObject({ status: "False", message: expect.stringMatching(/./) as string });
      }),
    );
  });

  it("gives a Pod's end a reason that agrees with the phase", () => {
    fc.assert(
      fc.property(states, (state) => {
        const { status } = planSandbox(state);
        const reason = status?.conditions?.find(({ type }) => type === "Ready")?.reason;
        expect(reason === "PodCompleted").toBe(status?.phase === "Succeeded");
      }),
    );
  });
});
