import { withIgnoredFields } from "../../kube/conditions.ts";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { anyNode } from "../nodes/plan-cpus.ts";
import { noRestoredVolumes } from "../volumes/restored-volumes.ts";
import { ImageConfig } from "../../api/pod/resolved-image.ts";
import { RametError } from "../../base/errors.ts";
import { effectiveEgress, egressDigest } from "../../api/egress/effective-egress.ts";
import { annotations, labels } from "../../api/names/labels.ts";
import { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { Pod } from "../../api/schema/pod.ts";
import { parsePodTemplate } from "../../api/schema/pod-template.ts";
import { Sandbox, type SandboxPhase } from "../../api/kinds/sandbox.ts";
import { planSandbox } from "./plan.ts";
import { isEnded } from "../cluster/pod-facts.ts";
import { isRefusedByCpu } from "./plan-other-node.ts";
import { refusedResume } from "./plan-paused.ts";
import type { Origin } from "../origin/origin.ts";
import type { SandboxState } from "./state.ts";

const now = new Date("2030-01-01T00:00:00Z");
const apiVersion = "agents.kruise.io/v1alpha1";
const meta = (name: string, rest: object = {}) => ({
  name,
  namespace: "t",
  uid: `uid-${name}`,
  resourceVersion: "1",
  creationTimestamp: now.toISOString(),
  ...rest,
});
const template = parsePodTemplate({ spec: { containers: [{ name: "main", image: "python" }] } });
const error = new RametError("EngineFailed", "restore: it was refused");

function egressOf(rules: object): SandboxState["egress"] {
  const holder = { annotations: { [annotations.egress]: JSON.stringify(rules) } };
  const effective = effectiveEgress({}, holder, undefined, undefined);
  return { ...effective, digest: egressDigest(effective.policy) };
}

const pods = fc
  .record({
    phase: fc.constantFrom("Pending", "Running", "Succeeded", "Failed"),
    isDeleting: fc.boolean(),
    ready: fc.constantFrom("True", "False"),
    uid: fc.constantFrom("uid-pod", "uid-other"),
    nodeName: fc.constantFrom("n", "m"),
  })
  .map(({ phase, isDeleting, ready, uid, nodeName }) =>
    Pod.parse({
      metadata: meta("a", { uid, ...(isDeleting && { deletionTimestamp: now.toISOString() }) }),
      spec: { nodeName, containers: [{ name: "main", image: "cell" }] },
      status: { phase, podIP: "127.0.0.1", conditions: [{ type: "Ready", status: ready }] },
    }),
  );
const checkpoints = fc.constantFrom("Pending", "Creating", "Succeeded", "Failed", "Terminating").map((phase) =>
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
      name: { namespace: "t", checkpointId: "c" },
      parts: [],
    },
  },
);
const conditions = fc.constantFrom(
  "CheckpointCreating",
  "CheckpointSucceeded",
  "SnapshotPauseSucceed",
  "StopPauseSucceed",
);
const condition = (type: string, status: "True" | "False", reason: string) => ({
  type,
  status,
  reason,
  message: "",
  lastTransitionTime: now.toISOString(),
});
const sandboxes = fc
  .record({
    phase: fc.constantFrom<SandboxPhase | undefined>(
      undefined,
      "Pending",
      "Running",
      "Paused",
      "Resuming",
      "Succeeded",
      "Failed",
      "Upgrading",
    ),
    paused: fc.boolean(),
    isDeleting: fc.boolean(),
    finalizer: fc.boolean(),
    pausedReason: fc.option(conditions),
    loading: fc.boolean(),
    shutdownTime: fc.constantFrom(undefined, "2029-01-01T00:00:00Z", "2031-01-01T00:00:00Z"),
    pauseTime: fc.constantFrom(undefined, "2029-01-01T00:00:00Z", "2031-01-01T00:00:00Z"),
    request: fc.constantFrom(undefined, '{"envVars":{"A":"1"}}'),
  })
  .map(({ phase, paused, isDeleting, finalizer, pausedReason, loading, shutdownTime, pauseTime, request }) =>
    Sandbox.parse({
      apiVersion,
      kind: "Sandbox",
      metadata: meta("a", {
        ...(isDeleting && { deletionTimestamp: now.toISOString() }),
        ...(finalizer && { finalizers: ["agents.kruise.io/sandbox"] }),
        ...(request && { annotations: { [annotations.initRuntimeRequest]: request } }),
      }),
      spec: { paused, ...(shutdownTime && { shutdownTime }), ...(pauseTime && { pauseTime }) },
      status: {
        ...(phase && { phase }),
        podInfo: { podUID: "uid-pod" },
        conditions: [
          ...(loading ? [condition("MemoryLoaded", "False", "Loading")] : []),
          ...(pausedReason === null
            ? []
            : [condition("SandboxPaused", pausedReason.endsWith("PauseSucceed") ? "True" : "False", pausedReason)]),
        ],
      },
    }),
  );
const states: fc.Arbitrary<SandboxState> = fc.record({
  sandbox: sandboxes,
  pod: fc.option(pods, { nil: undefined }),
  foreignPod: fc.constant(undefined),
  stoppedBy: fc.constantFrom(undefined, "c"),
  template: fc.constantFrom(
    { template, borrowed: false, contents: {}, pauseStrategy: undefined, volumeClaims: [] },
    { template, borrowed: false, contents: {}, pauseStrategy: { type: "Stop" as const }, volumeClaims: [] },
    { problem: error },
  ),
  origin: origins,
  cpus: fc.constantFrom(anyNode, { ...anyNode, lacking: ["n"], missing: ["avx512f"] }),
  volumes: fc.constant(noRestoredVolumes),
  lostClaims: fc.constantFrom([], ["home-a"]),
  ignored: fc.constantFrom([], [{ path: "spec.runtimes[0].name csi", reason: "NotSupported", why: "none" }]),
  pullTimeoutInMilliseconds: fc.constantFrom(undefined, 0, 1_000),
  image: fc.constantFrom<SandboxState["image"]>(
    { state: "unresolved" },
    { state: "waiting" },
    {
      state: "known",
      image: { name: "python", reference: `python@sha256:${"0".repeat(64)}`, config: ImageConfig.parse({}) },
    },
    { state: "unknown", error, retryInMilliseconds: 5_000 },
  ),
  rollback: fc.constant(undefined),
  restoreInPlace: fc.constant(undefined),
  credentials: fc.constantFrom<SandboxState["credentials"]>(
    { credentials: undefined, digest: "none" },
    { credentials: { rules: {}, tls: false }, digest: "some" },
    { credentials: undefined, digest: "bad", problem: error },
  ),
  credentialsCall: fc.constantFrom<SandboxState["credentialsCall"]>(
    undefined,
    { state: "running", failures: 1, lastError: error },
    { state: "done", value: { digest: "some", again: new Date(now.getTime() + 60_000) } },
    { state: "done", value: { digest: "some", again: new Date(0) } },
    { state: "done", value: { digest: "bad", again: new Date(now.getTime() + 60_000), error } },
  ),
  end: fc.constant(undefined),
  activity: fc.constant(undefined),
  load: fc.constantFrom<SandboxState["load"]>(
    undefined,
    { state: "running", failures: 0 },
    { state: "done", value: undefined },
    { state: "failed", error },
  ),
  start: fc.constantFrom<SandboxState["start"]>(
    undefined,
    { state: "running", failures: 0 },
    { state: "failed", error },
    { state: "failed", error: new RametError("CpuFeaturesMissing", "it needs avx512f") },
    { state: "failed", error: new RametError("ImageReplaced", "it needs another image") },
    { state: "done", value: { generation: 1, phases: {} } },
  ),
  adoption: fc.constantFrom<SandboxState["adoption"]>(
    undefined,
    { state: "running", failures: 0 },
    { state: "failed", error },
    { state: "done", value: { generation: 2 } },
  ),
  egress: fc.constantFrom<SandboxState["egress"]>(
    egressOf({}),
    egressOf({ default: "deny" }),
    egressOf({ allow: ["169.254.169.254"] }),
  ),
  egressCall: fc.constantFrom<SandboxState["egressCall"]>(
    undefined,
    { state: "running", failures: 0 },
    { state: "running", failures: 1, lastError: error },
    { state: "done", value: { digest: egressOf({}).digest } },
    { state: "done", value: { digest: egressOf({ default: "deny" }).digest } },
    { state: "done", value: { digest: egressOf({ default: "deny" }).digest, error } },
  ),
  pauseCheckpoint: fc.option(checkpoints, { nil: undefined }),
  rolledBackPause: fc.constant(undefined),
  orphans: fc.array(checkpoints, { maxLength: 1 }),
  otherCheckpoint: fc.constant(undefined),
  slowInMilliseconds: fc.constantFrom(0, 0.1, 500),
  now: fc.constant(now),
});
const doing = (state: SandboxState) => planSandbox(state).actions.map((action) => action.do);

describe("planSandbox", () => {
  it("starts a sandbox only in a running Pod that is not being deleted, and never twice", () => {
    fc.assert(
      fc.property(states, (state) => {
        if (!doing(state).includes("startSandbox")) return;
        expect(state.pod?.status?.phase).toBe("Running");
        expect(state.pod?.metadata.deletionTimestamp).toBeUndefined();
        expect(state.start).toBeUndefined();
      }),
    );
  });

  it("gives an environment only to a running sandbox, once for each request, and reports it", () => {
    fc.assert(
      fc.property(states, (state) => {
        const { sandbox, adoption } = state;
        const plan = planSandbox(state);
        const isRequested = sandbox.metadata.annotations?.[annotations.initRuntimeRequest] !== undefined;
        if (plan.actions.some((action) => action.do === "adoptIdentity")) {
          expect(isRequested && sandbox.status?.phase === "Running").toBe(true);
          expect(adoption).toBeUndefined();
          expect(state.pod?.status?.phase).toBe("Running");
        }
        const initialized = plan.status?.conditions?.find(({ type }) => type === "RuntimeInitialized");
        if (initialized === undefined) return;
        expect([initialized.status, initialized.reason]).toEqual(
          adoption?.state === "done" ? ["True", "Succeeded"] : ["False", "Failed"],
        );
        expect(plan.status?.ramet?.initRequest !== undefined).toBe(adoption?.state === "done");
      }),
    );
  });

  it("creates a Pod only if none exists and the origin is usable", () => {
    fc.assert(
      fc.property(states, (state) => {
        if (!doing(state).includes("createPod")) return;
        expect(state.pod).toBeUndefined();
        expect(["new", "checkpoint"]).toContain(state.origin.kind);
      }),
    );
  });

  it("removes the finalizer only after the Pod, and deletes a Pod only for a deletion, a pause or another Pod", () => {
    fc.assert(
      fc.property(states, (state) => {
        const { metadata, spec, status } = state.sandbox;
        const done = doing(state);
        if (done.includes("removeFinalizer")) expect(state.pod).toBeUndefined();
        if (done.includes("deletePod"))
          expect(
            metadata.deletionTimestamp !== undefined ||
              status?.phase === "Paused" ||
              (state.pod !== undefined &&
                (isRefusedByCpu(state, state.pod) ||
                  (status?.phase === "Resuming" && isEnded(state.pod)) ||
                  (spec.paused === true && refusedResume(state, state.pod) !== undefined))),
          ).toBe(true);
      }),
    );
  });

  it("pauses with a checkpoint only after that has succeeded", () => {
    fc.assert(
      fc.property(states, (state) => {
        const { sandbox, pauseCheckpoint, template: resolved } = state;
        const plan = planSandbox(state);
        if (sandbox.status?.phase !== "Running" || plan.status?.phase !== "Paused") return;
        const phase = pauseCheckpoint?.status?.phase ?? "Terminating";
        const stops = !("problem" in resolved) && resolved.pauseStrategy?.type === "Stop" && phase === "Terminating";
        expect(stops || phase === "Succeeded").toBe(true);
      }),
    );
  });

  it("takes another checkpoint for a pause whose own one is being deleted", () => {
    const running = sandboxes.filter(
      ({ spec, status, metadata }) =>
        status?.phase === "Running" && spec.paused === true && metadata.deletionTimestamp === undefined,
    );
    const deleted = checkpoints.filter(({ status }) => status?.phase === "Terminating");
    const resolved = { template, borrowed: false, contents: {}, pauseStrategy: undefined, volumeClaims: [] };
    fc.assert(
      fc.property(states, running, deleted, (state, sandbox, pauseCheckpoint) => {
        const given = { ...state, sandbox, pauseCheckpoint, template: resolved, otherCheckpoint: undefined };
        const { status, actions } = planSandbox(given);
        expect(status?.phase).not.toBe("Paused");
        if (status?.phase !== "Running") return;
        expect(actions).toContainEqual({ do: "createPauseCheckpoint", persistentContents: [] });
      }),
    );
  });

  it("resumes while the Pod of the pause ends, and keeps a Pod that was created for the resume", () => {
    fc.assert(
      fc.property(states, (state) => {
        const { sandbox, pod } = state;
        const { metadata, spec, status } = sandbox;
        const isResumed = spec.paused !== true && metadata.deletionTimestamp === undefined;
        if (status?.phase !== "Paused" || !isResumed || pod === undefined) return;
        const isOfPause = pod.metadata.uid === status.podInfo?.podUID;
        const isDeleting = pod.metadata.deletionTimestamp !== undefined;
        const plan = planSandbox(state);
        if (plan.actions.some((action) => action.do === "deleteSandbox")) return;
        expect(plan.actions.some((action) => action.do === "deletePod")).toBe(isOfPause && !isDeleting);
        if (!isOfPause || isDeleting) expect(["Resuming", "Failed"]).toContain(plan.status?.phase);
      }),
    );
  });

  it("does nothing in phases that are final or belong to another controller, except the timers", () => {
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

  it("reports nothing as under way in a sandbox that ends", () => {
    fc.assert(
      fc.property(states, (state) => {
        const { phase, conditions: written = [] } = planSandbox(state).status ?? {};
        if (phase !== "Succeeded" && phase !== "Failed") return;
        expect(written.map(({ reason }) => reason)).not.toContain("CheckpointCreating");
        expect(written.map(({ reason }) => reason)).not.toContain("Loading");
      }),
    );
  });

  it("names the checkpoint of the pause when a resume fails", () => {
    fc.assert(
      fc.property(states, checkpoints, (state, pauseCheckpoint) => {
        const { sandbox } = state;
        const status = { ...sandbox.status, phase: "Resuming" as const };
        const kept = { ...pauseCheckpoint, status: { ...pauseCheckpoint.status, checkpointId: "kept" } };
        const planned = planSandbox({ ...state, sandbox: { ...sandbox, status }, pauseCheckpoint: kept }).status;
        if (planned?.phase === "Failed") expect(planned.message).toContain("ramet rollback a kept");
      }),
    );
  });

  it("observes a change of a sandbox that has ended, and leaves its status", () => {
    fc.assert(
      fc.property(states, (state) => {
        const { metadata, status } = state.sandbox;
        if (metadata.deletionTimestamp !== undefined || !["Succeeded", "Failed"].includes(status?.phase ?? "")) return;
        const { actions, status: written } = planSandbox({
          ...state,
          sandbox: { ...state.sandbox, metadata: { ...metadata, generation: 2 } },
        });
        if (actions.some((action) => action.do === "deleteSandbox")) return;
        const conditions = withIgnoredFields(status?.conditions, state.ignored, now);
        expect(written).toEqual({ ...status, conditions });
      }),
    );
  });

  it("names the fields without effect in every status, and no others", () => {
    fc.assert(
      fc.property(states, (state) => {
        const { status } = planSandbox(state);
        if (status === undefined) return;
        const isNamed = status.conditions?.some(({ type }) => type === "FieldsIgnored") ?? false;
        expect(isNamed).toBe(state.ignored.length > 0);
      }),
    );
  });

  it("reports why a sandbox that neither runs nor pauses nor resumes is not Ready", () => {
    fc.assert(
      fc.property(states, (state) => {
        const { status } = planSandbox(state);
        if (status === undefined || ["Running", "Paused", "Resuming"].includes(status.phase ?? "")) return;
        const ready = status.conditions?.find(({ type }) => type === "Ready");
        expect(ready).toMatchObject({ status: "False", message: expect.stringMatching(/./) as string });
      }),
      // One state in about 2,000 is that of a sandbox that is created paused, with credentials that are refused.
      { numRuns: 10_000 },
    );
  });

  it("waits once for a clone's memory, and reports when it is loaded", () => {
    fc.assert(
      fc.property(states, (state) => {
        const { actions, status } = planSandbox(state);
        const before = state.sandbox.status?.conditions?.find(({ type }) => type === "MemoryLoaded");
        const after = status?.conditions?.find(({ type }) => type === "MemoryLoaded");
        if (actions.some((action) => action.do === "awaitMemory")) {
          expect(before?.status).toBe("False");
          expect(state.load).toBeUndefined();
        }
        if (before !== undefined && after?.status === "True") expect(state.load?.state).toBe("done");
      }),
    );
  });

  it("requeues a start without a status, to report why it waits once it is slow", () => {
    fc.assert(
      fc.property(states, (state) => {
        const { metadata, status } = state.sandbox;
        const { actions, requeueAfterMilliseconds, ...plan } = planSandbox(state);
        const isStarting = status?.phase === undefined || status.phase === "Resuming";
        if (!isStarting || metadata.deletionTimestamp !== undefined || state.slowInMilliseconds === 0) return;
        if (plan.status !== undefined || actions.some((action) => action.do === "deleteSandbox")) return;
        expect(requeueAfterMilliseconds).toBeLessThanOrEqual(Math.max(1, state.slowInMilliseconds));
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
