import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Checkpoint, type CheckpointPhase } from "../../api/kinds/checkpoint.ts";
import { RametError } from "../../base/errors.ts";
import { Pod } from "../../api/schema/pod.ts";
import { Sandbox } from "../../api/kinds/sandbox.ts";
import { type CheckpointRecord, checkpointRecord } from "../../backends/checkpoint-record.ts";
import { planCheckpoint } from "./plan.ts";
import type { CheckpointState, Source } from "./state.ts";

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
const lost = new RametError("SandboxLost", "The checkpoint was not taken: the Pod a has ended");
const error = new RametError("EngineFailed", "checkpoint: rejected", { hint: "Try again" });
const overQuota = new RametError("QuotaExceeded", "The checkpoint was not taken: the namespace t uses 1 of 1");
const record: CheckpointRecord = checkpointRecord(
  [
    {
      backend: "cell",
      handle: `sha256:${"1".repeat(64)}`,
      contents: ["memory", "filesystem"],
      sizeBytes: 1,
      cutAt: now.toISOString(),
      consistency: "atomic",
    },
  ],
  {},
);
const source: Source = {
  sandbox: Sandbox.parse({ apiVersion, kind: "Sandbox", metadata: meta("a"), spec: {} }),
  pod: Pod.parse({ metadata: meta("a"), spec: { containers: [{ name: "main", image: "cell" }] } }),
};
const earlierCapture = Checkpoint.parse({
  apiVersion,
  kind: "Checkpoint",
  metadata: meta("first"),
  spec: { podName: "a" },
});

const preparing = { since: "2029-12-31T23:50:00Z" };

const checkpoints = fc
  .record({
    phase: fc.constantFrom<CheckpointPhase | undefined>(
      undefined,
      "Pending",
      "Creating",
      "Succeeded",
      "Failed",
      "Terminating",
    ),
    started: fc.boolean(),
    deleting: fc.boolean(),
    finalizer: fc.boolean(),
    completionTime: fc.constantFrom(undefined, "2029-12-31T23:00:00Z", "2029-12-31T23:59:59Z"),
  })
  .map(({ phase, started, deleting, finalizer, completionTime }) =>
    Checkpoint.parse({
      apiVersion,
      kind: "Checkpoint",
      metadata: meta("c", {
        ...(started && { annotations: { "ramet.dev/pod-uid": "uid-a" } }),
        ...(deleting && { deletionTimestamp: now.toISOString() }),
        ...(finalizer && { finalizers: ["agents.kruise.io/checkpoint"] }),
      }),
      spec: { podName: "a" },
      ...(phase && { status: { phase, ...(completionTime && { completionTime }) } }),
    }),
  );
const states: fc.Arbitrary<CheckpointState> = fc.record({
  checkpoint: checkpoints,
  checkpointId: fc.constant("c-1"),
  spec: fc.oneof(
    fc.constant({ problem: error }),
    fc.record({
      sandboxName: fc.constant("a"),
      keepRunning: fc.boolean(),
      contents: fc.constant<["memory", "filesystem"]>(["memory", "filesystem"]),
      volumes: fc.constantFrom("all" as const, "none" as const),
      consistency: fc.constantFrom("crash" as const, "atomic" as const),
      requireAtomic: fc.boolean(),
      quiesce: fc.constant({}),
      ttlMilliseconds: fc.constantFrom(undefined, 60_000),
    }),
  ),
  source: fc.constantFrom<Source>(source, { problem: error }, { problem: lost, hasEnded: true }),
  earlierCapture: fc.constantFrom(undefined, earlierCapture),
  preparation: fc.constantFrom(undefined, preparing),
  capture: fc.constantFrom<CheckpointState["capture"]>(
    undefined,
    { state: "running", failures: 0 },
    { state: "failed", error },
    { state: "done", value: record },
  ),
  secrets: fc.constantFrom([], ["api-key"]),
  volumes: fc.constantFrom(
    [],
    [
      { volume: "home", claim: "home-a" },
      { volume: "cache", claim: "a-cache" },
    ],
  ),
  finding: fc.constantFrom<CheckpointState["finding"]>(
    undefined,
    { state: "missing" },
    { state: "damaged", error: lost },
    { state: "present" },
    { state: "restored" },
  ),
  quota: fc.constantFrom<CheckpointState["quota"]>({}, { maxBytes: 1 }, { problem: overQuota }),
  now: fc.constant(now),
});
const doing = (state: CheckpointState) => planCheckpoint(state).actions.map((action) => action.do);
const isFinal = (phase: string | undefined): boolean => phase === "Succeeded" || phase === "Failed";
const holds = (check: (state: CheckpointState) => void): void => {
  fc.assert(fc.property(states, check), { numRuns: 1_000 });
};

describe("planCheckpoint", () => {
  it("starts a capture once, only if the source can be captured, no other checkpoint comes first, and the Checkpoint is unfinished", () => {
    holds((state) => {
      if (!doing(state).includes("startCapture")) return;
      expect(state.source).toBe(source);
      expect([state.earlierCapture, state.preparation, state.capture]).toEqual([undefined, undefined, undefined]);
      expect("problem" in state.spec).toBe(false);
      expect(isFinal(state.checkpoint.status?.phase)).toBe(false);
    });
  });

  it("reports a finding about the data of a checkpoint once, and never in its phase", () => {
    holds((state) => {
      const { checkpoint } = state;
      if (checkpoint.status?.phase !== "Succeeded" || checkpoint.metadata.deletionTimestamp !== undefined) return;
      const { status } = planCheckpoint(state);
      if (status === undefined) return;
      const conditions = expect.arrayContaining([
        expect.objectContaining({ type: "DataAvailable", status: "False" }),
        expect.objectContaining({ type: "Ready", status: "False" }),
        expect.objectContaining({ type: "Stalled", status: "True" }),
      ]) as unknown;
      expect(status).toMatchObject({ phase: "Succeeded", conditions });
      expect(planCheckpoint({ ...state, checkpoint: { ...checkpoint, status } }).status).toBeUndefined();
    });
  });

  it.each([
    ["missing", "present", "DataFound"],
    ["missing", "restored", "DataFound"],
    ["damaged", "restored", "DataFound"],
    // Its manifest is in the store, which does not say that its content is whole.
    ["damaged", "present", "DataDamaged"],
    ["damaged", "missing", "DataMissing"],
    ["missing", undefined, "DataMissing"],
  ] as const)("reports data that was %s and is then %s as %s", (before, after, reason) => {
    const found = (state: typeof before | typeof after) =>
      state === undefined ? undefined : state === "damaged" ? { state, error: lost } : { state };
    const succeeded = states.filter(({ checkpoint: { status, metadata }, spec }) => {
      const isKept = !("problem" in spec) && spec.ttlMilliseconds === undefined;
      return isKept && status?.phase === "Succeeded" && metadata.deletionTimestamp === undefined;
    });
    const base = fc.sample(succeeded, 1)[0]!;
    const { status } = planCheckpoint({ ...base, finding: found(before) });
    const then = planCheckpoint({ ...base, checkpoint: { ...base.checkpoint, status }, finding: found(after) });
    const isThere = reason === "DataFound";
    expect((then.status ?? status)?.conditions).toMatchObject([
      { type: "DataAvailable", reason },
      { type: "Ready", status: isThere ? "True" : "False" },
      ...(isThere ? [] : [{ type: "Stalled", status: "True", reason }]),
    ]);
  });

  it("stops the source only if the spec requests it and the checkpoint has succeeded", () => {
    holds((state) => {
      if (!doing(state).includes("stopSource")) return;
      const { spec, checkpoint, capture } = state;
      expect(spec).toMatchObject({ keepRunning: false });
      expect(checkpoint.status?.phase === "Succeeded" || capture?.state === "done").toBe(true);
    });
  });

  it("stops the source only after the status has the digest, unless the Checkpoint is being deleted", () => {
    holds((state) => {
      if (!doing(state).includes("stopSource")) return;
      const { metadata, status } = state.checkpoint;
      expect(metadata.deletionTimestamp !== undefined || status?.phase === "Succeeded").toBe(true);
    });
  });

  it("reports Succeeded only for durable data and Failed only with a message, and never takes either back", () => {
    holds((state) => {
      const before = state.checkpoint.status?.phase;
      const { status } = planCheckpoint(state);
      if (isFinal(before) && status !== undefined) expect([before, "Terminating"]).toContain(status.phase);
      if (isFinal(before)) return;
      if (status?.phase === "Succeeded") {
        expect(state.capture).toEqual({ state: "done", value: record });
        expect(status).toMatchObject({ checkpointId: "c-1", ramet: { manifestDigest: record.manifestDigest } });
      }
      if (status?.phase === "Failed") expect(status.message).toMatch(/./);
      if (isFinal(status?.phase)) expect(status?.completionTime).toBeDefined();
    });
  });

  it("takes no checkpoint beyond a quota: not a part of one is kept, and a condition names the quota", () => {
    holds((state) => {
      const plan = planCheckpoint(state);
      const does = plan.actions.map((action) => action.do);
      if ("problem" in state.quota) expect(does).not.toContain("startCapture");
      const isOver = isFinal(state.checkpoint.status?.phase);
      if ("problem" in state.quota && state.capture?.state === "done" && !isOver)
        expect(plan.status?.phase).not.toBe("Succeeded");
      if (does.includes("discard"))
        expect(plan.status).toMatchObject({ phase: "Failed", message: overQuota.describe() });
      if (plan.status?.message !== overQuota.describe()) return;
      expect(plan.status.conditions).toMatchObject([
        { type: "Ready", status: "False", reason: "QuotaExceeded" },
        { type: "Stalled", status: "True", reason: "QuotaExceeded" },
        { type: "WithinQuota", status: "False", reason: "QuotaExceeded" },
      ]);
    });
  });

  it("names the claims whose data it does not contain, and is then not atomic as a whole", () => {
    holds((state) => {
      const { status } = planCheckpoint(state);
      if (status?.phase !== "Succeeded" || state.checkpoint.status?.phase === "Succeeded") return;
      const condition = status.conditions?.find(({ type }) => type === "VolumesCaptured");
      expect(condition === undefined).toBe(state.volumes.length === 0);
      expect(status.ramet?.consistency).toBe(state.volumes.length === 0 ? "atomic" : undefined);
      expect(status.ramet?.parts?.[0]?.consistency).toBe("atomic");
      if (condition === undefined) return;
      expect(condition.status).toBe("False");
      for (const { claim } of state.volumes) expect(condition.message).toContain(claim);
      expect(status.ramet?.volumes).toEqual(state.volumes);
    });
  });

  it("removes data only of a deleted Checkpoint, and not during a capture", () => {
    holds((state) => {
      if (!doing(state).includes("removeData")) return;
      expect(state.checkpoint.metadata.deletionTimestamp).toBeDefined();
      expect(state.checkpoint.metadata.finalizers).toContain("agents.kruise.io/checkpoint");
      expect(state.capture?.state).not.toBe("running");
    });
  });

  it("waits for a running capture, and asks only the store once its Pod has ended", () => {
    holds((state) => {
      if (state.capture?.state !== "running" || isFinal(state.checkpoint.status?.phase)) return;
      const hasEnded = "problem" in state.source && state.source.hasEnded === true;
      expect(planCheckpoint(state)).toEqual({
        actions: hasEnded ? [{ do: "findPublished", otherwise: lost }] : [],
      });
    });
  });

  it("deletes only finished Checkpoints whose TTL has expired, and requeues when it will expire", () => {
    holds((state) => {
      const { checkpoint, spec } = state;
      const plan = planCheckpoint(state);
      const { completionTime, phase } = checkpoint.status ?? {};
      const isDeleted = plan.actions.some((action) => action.do === "deleteCheckpoint");
      const isPreparing = plan.status?.conditions?.some(({ reason }) => reason === "Preparing") === true;
      if (isPreparing) expect([state.preparation, plan.requeueAfterMilliseconds]).toEqual([preparing, 2_000]);
      if (isDeleted || (plan.requeueAfterMilliseconds !== undefined && !isPreparing)) {
        expect(isFinal(phase)).toBe(true);
        const endsAt = new Date(completionTime ?? "").getTime() + 60_000;
        expect(spec).toMatchObject({ ttlMilliseconds: 60_000 });
        expect(isDeleted).toBe(endsAt <= now.getTime());
        if (!isDeleted) expect(plan.requeueAfterMilliseconds).toBe(endsAt - now.getTime());
      }
    });
  });

  it("looks in the store before it reports a started checkpoint as lost", () => {
    holds((state) => {
      const { checkpoint, capture, spec, source: from } = state;
      const started =
        checkpoint.metadata.annotations !== undefined && checkpoint.metadata.deletionTimestamp === undefined;
      if (!started || capture !== undefined || "problem" in spec || !("problem" in from)) return;
      if (isFinal(checkpoint.status?.phase)) return;
      expect(doing(state)).toEqual(["findPublished"]);
    });
  });

  describe("while a local cluster prepares the programs of snapshots", () => {
    const minutesAgo = (minutes: number) => new Date(now.getTime() - minutes * 60_000).toISOString();
    const planned = (preparation: CheckpointState["preparation"], age = 0) => {
      const ready = states.filter(({ spec }) => !("problem" in spec));
      const checkpoint = Checkpoint.parse({
        apiVersion,
        kind: "Checkpoint",
        metadata: meta("c", { creationTimestamp: minutesAgo(age) }),
        spec: { podName: "a" },
      });
      const none = { capture: undefined, earlierCapture: undefined };
      return planCheckpoint({ ...fc.sample(ready, 1)[0]!, ...none, checkpoint, source, quota: {}, preparation });
    };

    it("waits before the sandbox is touched, and reports what for", () => {
      const { actions, status, requeueAfterMilliseconds } = planned({ since: minutesAgo(18) });
      expect(actions).toEqual([]);
      expect(status?.phase).toBe("Pending");
      const message = expect.stringMatching(/prepared the snapshot-controller.*not part of its time limits/) as string;
      expect(status?.conditions).toMatchObject([{ type: "Ready", status: "False", reason: "Preparing", message }]);
      expect(requeueAfterMilliseconds).toBeLessThanOrEqual(5_000);
    });

    it("reports a failed attempt, and fails when none has succeeded for 10 minutes", () => {
      const failing = { since: minutesAgo(18), failure: "Go is not installed" };
      expect(planned(failing, 1).status).toMatchObject({
        phase: "Pending",
        conditions: [
          { reason: "PreparationFailed", message: expect.stringContaining("Go is not installed") as string },
        ],
      });
      expect(planned({ ...failing, failingSince: minutesAgo(1) }, 12).status?.phase).toBe("Pending");
      expect(planned({ ...failing, failingSince: minutesAgo(11) }, 12).status?.phase).toBe("Failed");
      expect(planned(failing, 11).status).toMatchObject({
        phase: "Failed",
        message: expect.stringMatching(/Go is not installed.*VolumeNotCaptured/s) as string,
      });
    });

    it.each([
      ["when it has ended", { since: minutesAgo(18), until: now.toISOString() }],
      ["when its end was not reported for an hour", { since: minutesAgo(61) }],
      ["without one", undefined],
    ])("begins %s", (_, preparation) => {
      expect(planned(preparation).actions).toMatchObject([{ do: "startCapture" }]);
    });
  });

  describe("of a checkpoint that waits for its turn", () => {
    const unready = new RametError("SandboxNotReady", "The checkpoint was not taken: the sandbox a is not Ready");
    const isTemporary = true as const;
    const marked = (mark: object): Checkpoint =>
      Checkpoint.parse({ apiVersion, kind: "Checkpoint", metadata: meta("c", mark), spec: { podName: "a" } });
    const waits = marked({ annotations: { "ramet.dev/waits-turn": "true" } });
    const pauses = marked({ labels: { "ramet.dev/purpose": "pause" } });
    const readySpecs = states.filter(({ spec }) => !("problem" in spec));
    const phaseOf = (given: Partial<CheckpointState>) => {
      const [base] = fc.sample(readySpecs, 1);
      const none = { capture: undefined, earlierCapture: undefined, preparation: undefined };
      return planCheckpoint({ ...base!, ...none, quota: {}, ...given }).status?.phase;
    };

    it.each([
      [
        "while an earlier one explains an unready source",
        { checkpoint: waits, source: { problem: unready }, earlierCapture },
        "Pending",
      ],
      [
        "while its source runs and is not ready",
        { checkpoint: waits, source: { problem: unready, isTemporary } },
        "Pending",
      ],
      ["while an earlier capture holds a ready source", { checkpoint: waits, source, earlierCapture }, "Pending"],
      ["as a pause, while an earlier capture holds it", { checkpoint: pauses, source, earlierCapture }, "Pending"],
      [
        "not as a pause of an unready sandbox",
        { checkpoint: pauses, source: { problem: unready, isTemporary } },
        "Failed",
      ],
      ["not for a source that does not exist", { checkpoint: waits, source: { problem: lost } }, "Failed"],
      [
        "not without the annotation",
        { checkpoint: marked({}), source: { problem: unready, isTemporary }, earlierCapture },
        "Failed",
      ],
    ] as const)("waits %s", (_, state, phase) => {
      expect(phaseOf(state)).toBe(phase);
    });
  });
});
