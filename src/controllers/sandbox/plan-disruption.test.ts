import { describe, expect, it } from "vitest";
import { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { Sandbox } from "../../api/kinds/sandbox.ts";
import { annotations, labels } from "../../api/names/labels.ts";
import { parsePodTemplate } from "../../api/schema/pod-template.ts";
import { Pod } from "../../api/schema/pod.ts";
import { RametError } from "../../base/errors.ts";
import { findCondition } from "../../kube/conditions.ts";
import { disruptionCheckpointName } from "../cluster/pause-checkpoint.ts";
import { anyNode } from "../nodes/plan-cpus.ts";
import { desiredEgress } from "../origin/egress.ts";
import { noRestoredVolumes } from "../volumes/restored-volumes.ts";
import { planUnsaved } from "./plan-disruption.ts";
import { planSandbox } from "./plan.ts";
import { running } from "./status.ts";
import type { SandboxState } from "./state.ts";

const now = new Date("2030-01-01T00:00:00Z");
const apiVersion = "agents.kruise.io/v1alpha1";
const template = parsePodTemplate({ spec: { containers: [{ name: "main", image: "python" }] } });
const meta = (name: string, rest: object = {}) => ({
  name,
  namespace: "t",
  uid: `uid-${name}`,
  resourceVersion: "1",
  creationTimestamp: now.toISOString(),
  ...rest,
});
const lastTransitionTime = now.toISOString();
const conditions = [{ type: "Ready", status: "True", reason: "PodReady", message: "", lastTransitionTime }];

interface PodFields {
  policy?: string;
  isDeleting?: boolean;
  reason?: string;
  phase?: string;
  ended?: string;
}
const pod = ({ policy = "Migrate", isDeleting = true, reason, phase = "Running", ended }: PodFields = {}): Pod =>
  Pod.parse({
    metadata: meta("a", {
      uid: "old",
      annotations: { [annotations.onDisruption]: policy },
      ...(isDeleting && { deletionTimestamp: now.toISOString() }),
    }),
    spec: { containers: [{ name: "main", image: "cell" }] },
    status: {
      phase,
      podIP: "10.0.0.1",
      ...(ended !== undefined && { reason: ended }),
      ...(reason !== undefined && { conditions: [{ type: "DisruptionTarget", status: "True", reason }] }),
    },
  });
const sandbox = (parts: { metadata?: object; spec?: object; ramet?: object; podUID?: string } = {}): Sandbox =>
  Sandbox.parse({
    apiVersion,
    kind: "Sandbox",
    metadata: meta("a", { finalizers: ["agents.kruise.io/sandbox"], ...parts.metadata }),
    spec: parts.spec ?? {},
    status: { phase: "Running", podInfo: { podUID: parts.podUID ?? "old" }, conditions, ramet: parts.ramet },
  });
const underWay = (outcome = "Migrating") => ({
  disruption: { cause: "Evicted", at: now.toISOString(), outcome, podUID: "old" },
});
const capture = (phase: string, name = disruptionCheckpointName(sandbox()), status: object = {}): Checkpoint =>
  Checkpoint.parse({
    apiVersion,
    kind: "Checkpoint",
    metadata: meta(name, { labels: { [labels.purpose]: "pause" } }),
    spec: { sandboxName: "a" },
    status: { phase, ...status },
  });

function stateOf(parts: Partial<SandboxState>): SandboxState {
  const own = parts.sandbox ?? sandbox();
  return {
    sandbox: own,
    pod: pod(),
    foreignPod: undefined,
    stoppedBy: undefined,
    credentials: { credentials: undefined, digest: "none" },
    credentialsCall: undefined,
    template: { template, borrowed: false, contents: {}, pauseStrategy: undefined, volumeClaims: [] },
    cpus: anyNode,
    volumes: noRestoredVolumes,
    lostClaims: [],
    image: { state: "unresolved" },
    ignored: [],
    pullTimeoutInMilliseconds: undefined,
    rollback: undefined,
    origin: { kind: "new" },
    start: undefined,
    restoreInPlace: undefined,
    adoption: undefined,
    load: undefined,
    end: undefined,
    activity: undefined,
    egress: desiredEgress({ namespace: undefined, template: undefined, sandbox: own }, {}),
    egressCall: undefined,
    pauseCheckpoint: undefined,
    rolledBackPause: undefined,
    orphans: [],
    otherCheckpoint: undefined,
    slowInMilliseconds: 500,
    now,
    ...parts,
  };
}
const plan = (parts: Partial<SandboxState>) => planSandbox(stateOf(parts));
const done = (parts: Partial<SandboxState>) => plan(parts).actions.map((action) => action.do);

describe("a running sandbox whose Pod others end", () => {
  it.each([
    ["EvictionByEvictionAPI", "Evicted"],
    ["PreemptionByScheduler", "Preempted"],
    ["DeletionByTaintManager", "NodeTaint"],
    ["TerminationByKubelet", "NodeShutdown"],
    [undefined, "PodDeleted"],
  ])("is captured, and its status has the cause: %s is %s", (reason, cause) => {
    const { actions, status, transitions } = plan({ pod: pod({ ...(reason !== undefined && { reason }) }) });
    expect(actions).toMatchObject([{ do: "createPauseCheckpoint", isOfDisruption: true }]);
    expect(status).toMatchObject({ phase: "Running", ramet: { disruption: { cause, outcome: "Migrating" } } });
    expect(findCondition(status?.conditions, "Ready")?.status).toBe("True");
    expect(transitions).toMatchObject([{ type: "Warning", reason: "SandboxDisrupted" }]);
  });

  it("is captured as soon as somebody says that the Pod will be ended", () => {
    const announced = pod({ isDeleting: false, reason: "PreemptionByScheduler" });
    expect(done({ pod: announced })).toEqual(["createPauseCheckpoint"]);
  });

  it("reports the beginning once", () => {
    expect(plan({ sandbox: sandbox({ ramet: underWay() }) }).transitions).toBeUndefined();
  });

  it("is captured again if an earlier pause has failed, and waits for a pause that is under way", () => {
    const earlier = capture("Failed", "a-pause-earlier");
    expect(done({ pauseCheckpoint: earlier })).toEqual(["createPauseCheckpoint", "deleteCheckpoint"]);
    expect(done({ pauseCheckpoint: capture("Creating", "a-pause-earlier") })).toEqual([]);
  });

  it("is not captured, and does not run on, if nobody has claimed it or it is a build", () => {
    const owned = (kind: string, claimed?: string) =>
      sandbox({
        metadata: {
          ownerReferences: [{ apiVersion, kind, name: "o", uid: "o", controller: true }],
          ...(claimed !== undefined && { labels: { [labels.sandboxClaimed]: claimed } }),
        },
      });
    for (const one of [owned("SandboxSet", "false"), owned("NamedSnapshot")]) {
      const { actions, status, isOfUnclaimed } = plan({ sandbox: one });
      expect(actions).toMatchObject([{ do: "intendEnd" }]);
      expect(isOfUnclaimed).toBe(one.metadata.ownerReferences?.[0]?.kind === "SandboxSet");
      expect(status).toMatchObject({ phase: "Failed", ramet: { disruption: { outcome: "Lost" } } });
    }
    expect(done({ sandbox: owned("SandboxSet", "true") })).toEqual(["createPauseCheckpoint"]);
  });

  it("ends as its policy or its Pod of an earlier release says", () => {
    for (const policy of ["End", "unknown"]) {
      const { actions, status } = plan({ pod: pod({ policy }) });
      expect(actions).toEqual([]);
      expect(status).toMatchObject({
        phase: "Failed",
        ramet: { disruption: { cause: "PodDeleted", outcome: "Lost" } },
      });
    }
  });
});

describe("a captured sandbox", () => {
  const isCaptured = { pauseCheckpoint: capture("Succeeded") };

  it("is paused, and continues unless its policy or its spec says otherwise", () => {
    const { actions, status } = plan({ sandbox: sandbox({ ramet: underWay() }), ...isCaptured });
    expect(actions).toEqual([]);
    expect(status).toMatchObject({ phase: "Paused", ramet: { disruption: { outcome: "Migrating" } } });
    const paused = plan({ sandbox: sandbox({ ramet: underWay("Pausing") }), ...isCaptured });
    expect(paused.actions).toEqual([{ do: "setPaused", shutdownTime: null }]);
    expect(paused.status).toMatchObject({ phase: "Paused", ramet: { disruption: { outcome: "Paused" } } });
    const requested = plan({ sandbox: sandbox({ ramet: underWay(), spec: { paused: true } }), ...isCaptured });
    expect(requested.actions).toEqual([]);
    expect(requested.status).toMatchObject({ phase: "Paused", ramet: { disruption: { outcome: "Paused" } } });
  });

  it("is paused also if its Pod is gone or has ended by then", () => {
    for (const gone of [undefined, pod({ phase: "Failed" })]) {
      const { status } = plan({ sandbox: sandbox({ ramet: underWay() }), pod: gone, ...isCaptured });
      expect(status?.phase).toBe("Paused");
    }
  });
});

describe("a sandbox that cannot be captured", () => {
  it("ends immediately, and reports why", () => {
    const failed = capture("Failed", undefined, { message: "the store is away" });
    const { actions, status } = plan({ sandbox: sandbox({ ramet: underWay() }), pauseCheckpoint: failed });
    expect(actions).toMatchObject([{ do: "intendEnd" }]);
    expect(status).toMatchObject({ phase: "Failed", ramet: { disruption: { cause: "Evicted", outcome: "Lost" } } });
    expect(status?.message).toContain("(Evicted), and its state could not be saved");
    expect(status?.message).toContain("the store is away");
  });

  it("is captured again in a moment if the problem may pass, until its Pod has ended", () => {
    const completionTime = new Date(now.getTime() - 400).toISOString();
    for (const code of [
      "SandboxNotReady",
      "Conflict",
      "Unavailable",
      "StoreUnavailable",
      "StoreFull",
      "EngineFailed",
    ]) {
      const problems = { Ready: { code, cause: "busy" } };
      const failed = capture("Failed", undefined, { completionTime, ramet: { problems } });
      const parts = { sandbox: sandbox({ ramet: underWay() }), pauseCheckpoint: failed };
      const { actions, status, requeueAfterMilliseconds } = plan(parts);
      expect([actions, requeueAfterMilliseconds]).toEqual([[], 600]);
      expect(status).toMatchObject({ phase: "Running", ramet: { disruption: { outcome: "Migrating" } } });
      const later = new Date(now.getTime() + 600);
      expect(plan({ ...parts, now: later }).actions).toEqual([{ do: "deleteCheckpoint", checkpoint: failed }]);
      const over = plan({ ...parts, now: later, pod: pod({ phase: "Failed" }) });
      expect(over.status).toMatchObject({ phase: "Failed", ramet: { disruption: { outcome: "Lost" } } });
    }
    expect(done({ sandbox: sandbox({ ramet: underWay() }) })).toEqual(["createPauseCheckpoint"]);
  });

  it("is captured again after longer pauses while the problem lasts, which it reports if the Pod ends meanwhile", () => {
    const asked = pod();
    asked.metadata.deletionGracePeriodSeconds = 20;
    const problems = { Ready: { code: "StoreUnavailable", cause: "the store is away" } };
    const failed = capture("Failed", undefined, { completionTime: now.toISOString(), ramet: { problems } });
    const first = plan({ sandbox: sandbox({ ramet: underWay() }), pod: asked, pauseCheckpoint: failed });
    expect(first.requeueAfterMilliseconds).toBe(5_000);
    const name = disruptionCheckpointName(sandbox());
    const why = `the checkpoint ${name} failed: the store is away`;
    expect(findCondition(first.status?.conditions, "SandboxPaused")?.message).toContain(why);
    const own = sandbox({ ramet: { ...first.status?.ramet } });
    const ofEnd = { ramet: { problems: { Ready: { code: "SandboxLost", cause: "the cell has ended" } } } };
    for (const pauseCheckpoint of [undefined, capture("Failed", undefined, ofEnd)]) {
      const { status } = plan({
        sandbox: own,
        pod: pod({ phase: "Failed" }),
        ...(pauseCheckpoint && { pauseCheckpoint }),
      });
      expect(status).toMatchObject({ phase: "Failed", ramet: { disruption: { outcome: "Lost" } } });
      expect(status?.message).toContain(`its state could not be saved: ${why}`);
    }
    const saved = plan({ sandbox: own, pauseCheckpoint: capture("Succeeded", name, { checkpointId: "c" }) });
    expect(saved.status?.phase).toBe("Paused");
    expect(saved.status?.ramet?.disruption).not.toHaveProperty("problem");
  });

  it("is captured after a rollback that is being done", () => {
    const restoring = plan({ restoreInPlace: { state: "running", failures: 0 } });
    expect(restoring.actions).toEqual([]);
    expect(restoring.status).toMatchObject({ phase: "Running", ramet: { disruption: { outcome: "Migrating" } } });
  });

  it("runs on if nobody deletes its Pod, and is captured when somebody does", () => {
    const announced = pod({ isDeleting: false, reason: "PreemptionByScheduler" });
    const failed = capture("Failed");
    const { actions, status } = plan({
      sandbox: sandbox({ ramet: underWay() }),
      pod: announced,
      pauseCheckpoint: failed,
    });
    expect(actions).toEqual([{ do: "deleteCheckpoint", checkpoint: failed }]);
    expect(status).toMatchObject({ phase: "Running", ramet: { disruption: { outcome: "Withdrawn" } } });
    const withdrawn = sandbox({ ramet: underWay("Withdrawn") });
    expect(done({ sandbox: withdrawn, pod: announced })).toEqual([]);
    expect(done({ sandbox: withdrawn })).toEqual(["createPauseCheckpoint"]);
  });

  it("is captured again, after growing pauses, if its node leaves after a capture for an announced end has failed", () => {
    const announced = pod({ isDeleting: false, reason: "PreemptionByScheduler" });
    const withdrawn = sandbox({ ramet: { disruption: { ...underWay("Withdrawn").disruption, failures: 1 } } });
    const departure = { cause: "NodeCordoned", mark: "it is cordoned", turn: "now" } as const;
    const begun = plan({ sandbox: withdrawn, pod: announced, departure });
    expect(begun.actions).toMatchObject([{ do: "createPauseCheckpoint", isOfDisruption: true }]);
    expect(findCondition(begun.status?.conditions, "SandboxPaused")?.message).toContain("Its node is leaving");
    const own = sandbox({ ramet: { ...begun.status?.ramet } });
    const failed = plan({ sandbox: own, pod: announced, pauseCheckpoint: capture("Failed") });
    const retryAt = new Date(now.getTime() + 120_000).toISOString();
    expect(failed.status?.ramet?.disruption).toMatchObject({
      cause: "NodeCordoned",
      outcome: "Withdrawn",
      failures: 2,
      problem: { retryAt },
    });
  });

  it("has ended as its program has, if that completes meanwhile", () => {
    const completed = pod({ phase: "Succeeded" });
    for (const pauseCheckpoint of [undefined, capture("Failed")]) {
      const { status } = plan({ sandbox: sandbox({ ramet: underWay("Pausing") }), pod: completed, pauseCheckpoint });
      expect(status?.phase).toBe("Succeeded");
      expect(status?.ramet?.disruption).toBeUndefined();
    }
    const crashed = plan({ sandbox: sandbox({ ramet: underWay("Pausing") }), pod: pod({ phase: "Failed" }) });
    expect(crashed.status).toMatchObject({ phase: "Failed", ramet: { disruption: { outcome: "Lost" } } });
  });

  it.each([
    ["Evicted", "TerminationByKubelet", "Evicted"],
    ["Terminated", "TerminationByKubelet", "NodeShutdown"],
    ["NodeShutdown", undefined, "NodeShutdown"],
  ])("is lost if its node has ended its Pod by itself: %s", (reason, target, cause) => {
    const gone = pod({ isDeleting: false, phase: "Failed", ended: reason, ...(target && { reason: target }) });
    const { status, transitions = [] } = plan({ pod: gone });
    expect(status).toMatchObject({ phase: "Failed", ramet: { disruption: { cause, outcome: "Lost" } } });
    expect(transitions.map((one) => one.reason)).toEqual(["SandboxDisrupted", "SandboxFailed"]);
    const crashed = plan({ pod: pod({ isDeleting: false, phase: "Failed" }) });
    expect(crashed.status?.ramet?.disruption).toBeUndefined();
  });

  it("is captured again after seconds, and on a node that does not respond after minutes", () => {
    const completionTime = now.toISOString();
    const failure = capture("Failed", undefined, {
      completionTime,
      ramet: { problems: { Ready: { code: "Unavailable", cause: "no answer" } } },
    });
    const after = (seconds: number, isNodeSilent: boolean) =>
      done({
        sandbox: sandbox({ ramet: underWay() }),
        pauseCheckpoint: failure,
        isNodeSilent,
        now: new Date(now.getTime() + seconds * 1_000),
      });
    expect(after(11, false)).toEqual(["deleteCheckpoint"]);
    expect(after(299, true)).toEqual([]);
    expect(after(300, true)).toEqual(["deleteCheckpoint"]);
  });

  it("is lost if its checkpoint cannot be created, and its cell ends it", () => {
    const forbidden = new RametError("Forbidden", "the namespace t is being terminated");
    const state = stateOf({});
    const unsaved = planUnsaved(state, planSandbox(state), forbidden);
    expect(unsaved?.actions).toMatchObject([{ do: "intendEnd" }]);
    expect(unsaved?.status).toMatchObject({
      phase: "Failed",
      ramet: { disruption: { cause: "PodDeleted", outcome: "Lost" } },
    });
    expect(unsaved?.status?.message).toContain("the namespace t is being terminated");
    // The creation is repeated.
    expect(planUnsaved(state, planSandbox(state), new RametError("Unavailable", "no answer"))).toBeUndefined();
    const announced = stateOf({ pod: pod({ isDeleting: false, reason: "PreemptionByScheduler" }) });
    expect(planUnsaved(announced, planSandbox(announced), forbidden)).toMatchObject({
      actions: [],
      status: { phase: "Running", ramet: { disruption: { outcome: "Withdrawn" } } },
    });
  });

  it("runs on if its checkpoint cannot be created while its node leaves, and is captured later", () => {
    const state = stateOf({
      pod: pod({ isDeleting: false }),
      departure: { cause: "NodeCordoned", mark: "it is cordoned", turn: "now" },
    });
    const full = new RametError("Forbidden", "exceeded quota: checkpoints");
    const { status, transitions, actions } = planUnsaved(state, planSandbox(state), full) ?? {};
    expect(actions).toEqual([]);
    const cause = "The checkpoint cannot be created: exceeded quota: checkpoints";
    const retryAt = new Date(now.getTime() + 60_000).toISOString();
    expect(status).toMatchObject({
      phase: "Running",
      ramet: { disruption: { outcome: "Withdrawn", failures: 1, problem: { code: "Forbidden", cause, retryAt } } },
    });
    expect(transitions?.[0]?.note).toContain("repeated after 1 min");
  });

  it("is still to be captured when a rollback in its Pod ends meanwhile", () => {
    const state = stateOf({ sandbox: sandbox({ ramet: underWay() }) });
    const outcomeIn = (uid: string) => {
      const own = Pod.parse({ ...pod(), metadata: { ...pod().metadata, uid } });
      return running(state, own, { generation: 2, phases: {} }).ramet?.disruption?.outcome;
    };
    expect(outcomeIn(pod().metadata.uid)).toBe("Migrating");
    expect(outcomeIn("next")).toBe("Migrated");
  });

  it("is lost if its Pod ended before the capture was requested", () => {
    const { status } = plan({ sandbox: sandbox({ ramet: underWay() }), pod: undefined });
    expect(status).toMatchObject({ phase: "Failed", ramet: { disruption: { cause: "Evicted", outcome: "Lost" } } });
  });

  it("says that a checkpoint has ended it, if that was requested", () => {
    const { status } = plan({ pod: pod({ phase: "Succeeded" }), stoppedBy: "c" });
    expect(status?.phase).toBe("Succeeded");
  });
});

describe("the end of a Pod that the controllers intend", () => {
  it("is not held when the sandbox is deleted, or starts again", () => {
    const deleted = sandbox({ metadata: { deletionTimestamp: now.toISOString() } });
    expect(done({ sandbox: deleted })).toEqual(["intendEnd"]);
    const pending = Sandbox.parse({ ...sandbox(), status: undefined });
    expect(done({ sandbox: pending })).toContain("intendEnd");
  });
});

describe("a running sandbox whose node leaves", () => {
  const runs = pod({ isDeleting: false });
  const leaves = { cause: "NodeCordoned", mark: "it is cordoned" } as const;
  const noTarget = { ...leaves, turn: "noTarget", message: "No other node exists" } as const;
  const reported = { cause: "NodeCordoned", at: now.toISOString(), message: "No other node exists" };

  it("is captured when it is its turn, and not before", () => {
    const first = plan({ pod: runs, departure: { ...leaves, turn: "now" } });
    expect(first.actions).toMatchObject([{ do: "createPauseCheckpoint", isOfDisruption: true }]);
    expect(first.status?.ramet?.disruption).toMatchObject({ cause: "NodeCordoned", outcome: "Migrating" });
    expect(first.transitions).toMatchObject([{ note: expect.stringMatching(/^Its node is leaving/) as string }]);
    const waiting = plan({ pod: runs, departure: { ...leaves, turn: "later" } });
    expect(waiting).toMatchObject({ actions: [], requeueAfterMilliseconds: 30_000 });
    expect(waiting.status?.ramet).toBeUndefined();
  });

  it("waits for a rollback that is pending, unless its Pod is ended", () => {
    const request = { to: "c", digest: "d" };
    const rollback = { request, origin: { kind: "waiting", message: "not yet" }, needsNewPod: false } as const;
    expect(done({ pod: runs, departure: { ...leaves, turn: "now" }, rollback })).toEqual([]);
    expect(done({ rollback })).toEqual(["createPauseCheckpoint"]);
  });

  it("is captured to the end although its node stays after all", () => {
    const begun = sandbox({ ramet: underWay() });
    const { status, actions } = plan({ sandbox: begun, pod: runs, pauseCheckpoint: capture("Succeeded") });
    expect(status).toMatchObject({ phase: "Paused", ramet: { disruption: { outcome: "Migrating" } } });
    expect(actions).toEqual([]);
  });

  it("runs on without a target and says why once, until another node takes it or its own one stays", () => {
    const { status, actions, transitions } = plan({ pod: runs, departure: noTarget });
    expect(actions).toEqual([]);
    expect(status).toMatchObject({ phase: "Running", ramet: { noTarget: reported } });
    expect(transitions).toMatchObject([{ type: "Warning", reason: "NoTarget" }]);
    const { disruption } = underWay("Migrated");
    const stuck = sandbox({ ramet: { noTarget: reported, disruption } });
    const again = plan({ sandbox: stuck, pod: runs, departure: noTarget });
    expect(again.status?.ramet).toEqual(stuck.status?.ramet);
    expect(again.transitions).toBeUndefined();
    expect(done({ sandbox: stuck, pod: runs, departure: { ...leaves, turn: "now" } })).toEqual([
      "createPauseCheckpoint",
    ]);
    expect(plan({ sandbox: stuck, pod: runs }).status?.ramet).toEqual({ disruption });
  });

  it("is captured without a target when its Pod is really ended", () => {
    const stuck = sandbox({ ramet: { noTarget: reported } });
    const { status, actions } = plan({
      sandbox: stuck,
      pod: pod({ reason: "EvictionByEvictionAPI" }),
      departure: noTarget,
    });
    expect(actions).toMatchObject([{ do: "createPauseCheckpoint" }]);
    expect(status?.ramet?.disruption).toMatchObject({ cause: "Evicted", outcome: "Migrating" });
    expect(status?.ramet).not.toHaveProperty("noTarget");
  });

  it("repeats a capture after seconds if the machine is about to end, also after failures for another cause", () => {
    const retries: number[] = [];
    let before = { ...underWay("Withdrawn").disruption, cause: "NodeCordoned", failures: 4 } as object;
    for (let attempt = 0; attempt < 4; attempt++) {
      const departure = { cause: "NodeShutdown", mark: "it is shutting down", turn: "now" } as const;
      const begun = plan({ sandbox: sandbox({ ramet: { disruption: before } }), pod: runs, departure });
      const own = sandbox({ ramet: { ...begun.status?.ramet } });
      const { status } = plan({ sandbox: own, pod: runs, pauseCheckpoint: capture("Failed") });
      before = status?.ramet?.disruption ?? {};
      retries.push(Date.parse(status?.ramet?.disruption?.problem?.retryAt ?? "") - now.getTime());
    }
    expect(retries).toEqual([1_000, 2_000, 4_000, 8_000]);
  });

  it("runs on after a capture that failed, and says why and when it is repeated, after growing pauses", () => {
    const problems = { Ready: { code: "StoreFull", cause: "the store is full", hint: "Delete checkpoints" } };
    const pauseCheckpoint = capture("Failed", undefined, { ramet: { problems } });
    const { name } = pauseCheckpoint.metadata;
    const after = (minutes: number) => new Date(now.getTime() + minutes * 60_000);
    let failed = underWay().disruption as object;
    for (const [at, pause] of [1, 2, 4, 8, 10, 10].entries()) {
      const { status, actions, transitions } = plan({
        sandbox: sandbox({ ramet: { disruption: failed } }),
        pod: runs,
        pauseCheckpoint,
      });
      expect(actions).toMatchObject([{ do: "deleteCheckpoint" }]);
      const cause = `The checkpoint ${name} failed: the store is full`;
      expect(status).toMatchObject({
        phase: "Running",
        ramet: {
          disruption: {
            outcome: "Withdrawn",
            endedAt: now.toISOString(),
            failures: at + 1,
            problem: { ...problems.Ready, cause, retryAt: after(pause).toISOString() },
          },
        },
      });
      expect(transitions?.[0]?.note).toBe(
        `${cause}. Delete checkpoints [StoreFull]. The sandbox runs on, and the capture is repeated after ${pause} min, if its node still leaves`,
      );
      const own = sandbox({ ramet: { ...status?.ramet } });
      const again = plan({ sandbox: own, pod: runs, departure: { ...leaves, turn: "now" }, now: after(pause) });
      expect(again.actions).toMatchObject([{ do: "createPauseCheckpoint" }]);
      expect(again.status?.ramet?.disruption).not.toHaveProperty("problem");
      failed = again.status?.ramet?.disruption ?? {};
      // Somebody who ends the Pod does not wait.
      expect(done({ sandbox: own })).toEqual(["createPauseCheckpoint"]);
    }
  });
});

it("resumes in turn after its Pod was ended", () => {
  const held = {
    type: "SandboxPaused",
    status: "False" as const,
    reason: "CheckpointSucceeded",
    message: "",
    lastTransitionTime,
  };
  const { status, ...rest } = sandbox({ ramet: underWay() });
  const waiting = { ...rest, status: { ...status, phase: "Paused" as const, conditions: [held] } };
  const parts = { sandbox: waiting, pod: undefined, pauseCheckpoint: capture("Succeeded") };
  expect(plan({ ...parts, departure: { turn: "later" } })).toMatchObject({
    actions: [],
    requeueAfterMilliseconds: 15_000,
  });
  expect(plan({ ...parts, departure: { turn: "later" } }).status?.phase).not.toBe("Resuming");
  expect(plan({ ...parts, departure: { turn: "now" } }).status).toMatchObject({ phase: "Resuming" });
  expect(plan(parts).status).toMatchObject({ phase: "Resuming" });
});

describe("a captured sandbox that no node takes", () => {
  const words = "0/2 nodes are available: 2 Insufficient memory.";
  const completed = {
    type: "SandboxPaused",
    status: "True" as const,
    reason: "SnapshotPauseSucceed",
    message: "",
    lastTransitionTime,
  };
  const inPhase = (phase: string, ramet: object, spec: object = {}): Sandbox => {
    const { status, ...rest } = sandbox({ ramet, spec });
    return Sandbox.parse({ ...rest, status: { ...status, phase, conditions: [...conditions, completed] } });
  };
  const unscheduled = Pod.parse({
    metadata: meta("a", { uid: "next" }),
    spec: { containers: [{ name: "main", image: "cell" }] },
    status: { phase: "Pending", conditions: [{ type: "PodScheduled", status: "False", message: words }] },
  });
  const resuming = { pod: unscheduled, pauseCheckpoint: capture("Succeeded"), slowInMilliseconds: 0 };
  const after = (seconds: number) => new Date(now.getTime() + seconds * 1000);

  it("keeps its Pod for five minutes, in which an autoscaler can add a node, and says why", () => {
    const { actions, status, requeueAfterMilliseconds } = plan({
      ...resuming,
      sandbox: inPhase("Resuming", underWay()),
      now: after(290),
    });
    expect(actions.filter(({ do: what }) => what === "deletePod")).toEqual([]);
    expect(requeueAfterMilliseconds).toBe(10_000);
    expect(status).toMatchObject({
      phase: "Resuming",
      ramet: {
        noTarget: { cause: "Evicted", at: after(290).toISOString(), message: expect.stringContaining(words) as string },
      },
    });
  });

  const noTarget = { cause: "Evicted", at: now.toISOString(), message: words };
  it("is then paused without a Pod, with the reason and its state", () => {
    const own = inPhase("Resuming", { ...underWay(), noTarget });
    const { actions, status, transitions } = plan({ ...resuming, sandbox: own, now: after(300) });
    expect(actions).toContainEqual({ do: "deletePod", pod: unscheduled });
    expect(status).toMatchObject({
      phase: "Paused",
      message: expect.stringContaining(words) as string,
      ramet: { ...underWay(), noTarget: { at: noTarget.at, retryAt: after(900).toISOString() } },
    });
    expect(findCondition(status?.conditions, "Ready")).toMatchObject({ status: "False", reason: "NoTarget" });
    expect(findCondition(status?.conditions, "SandboxPaused")?.reason).toBe("SnapshotPauseSucceed");
    expect(transitions?.map(({ type, reason }) => [type, reason])).toContainEqual(["Warning", "NoTarget"]);
  });

  it("is paused immediately if no node can ever take it, and waits for an autoscaler in later tries", () => {
    const noNode = "Of 2 nodes, 2 have another architecture";
    const first = plan({ ...resuming, noNode, sandbox: inPhase("Resuming", underWay()) });
    expect(first.actions).toContainEqual({ do: "deletePod", pod: unscheduled });
    expect(first.status).toMatchObject({
      phase: "Paused",
      message: expect.stringContaining(`${noNode}. The Pod cannot be scheduled: ${words}`) as string,
      ramet: { ...underWay(), noTarget: { pausedAt: now.toISOString(), retryAt: after(60).toISOString() } },
    });
    const own = inPhase("Resuming", { ...underWay(), noTarget: { ...noTarget, at: after(-600).toISOString() } });
    expect(plan({ ...resuming, noNode, sandbox: own }).status?.phase).toBe("Resuming");
    expect(plan({ ...resuming, noNode, sandbox: own, now: after(300) }).status).toMatchObject({
      phase: "Paused",
      ramet: { noTarget: { pausedAt: after(300).toISOString(), retryAt: after(900).toISOString() } },
    });
  });

  it("waits for its turn, and continues as any paused sandbox", () => {
    const ramet = { ...underWay(), noTarget: { ...noTarget, retryAt: after(900).toISOString() } };
    const held = { sandbox: inPhase("Paused", ramet), pod: undefined, pauseCheckpoint: capture("Succeeded") };
    const waiting = plan({ ...held, departure: { turn: "later" } });
    expect(waiting).toMatchObject({ actions: [], requeueAfterMilliseconds: 15_000 });
    expect(waiting.status?.phase).not.toBe("Resuming");
    const next = plan({ ...held, departure: { turn: "now" } });
    expect(next.status).toMatchObject({ phase: "Resuming", ramet: { noTarget: { at: noTarget.at } } });
    const paused = plan({ ...held, sandbox: inPhase("Paused", ramet, { paused: true }) });
    expect(paused.status?.phase).toBe("Paused");
    expect(paused.status?.ramet).not.toHaveProperty("noTarget");
  });

  describe("or whose next Pod ends before it is resumed", () => {
    const next = (status: object) => Pod.parse({ ...unscheduled, status: { phase: "Failed", ...status } });
    const target = (reason: string) => ({ conditions: [{ type: "DisruptionTarget", status: "True", reason }] });
    const cell = (terminated: object) => ({ containerStatuses: [{ name: "main", state: { terminated } }] });
    const byOthers: [string, object][] = [
      ["Evicted", { reason: "Evicted", message: "The node was low on resource: memory." }],
      ["NodeLost", target("DeletionByPodGC")],
      ["NodeShutdown", { reason: "Terminated", ...target("TerminationByKubelet") }],
      ["CellDied", cell({ exitCode: 255, reason: "ContainerStatusUnknown" })],
    ];

    it.each(byOthers)("gets another one after %s", (cause, status) => {
      const pod = next(status);
      // What holds the sandbox is written in its disruption.
      for (const ramet of [underWay(), underWay("Paused"), {}]) {
        const own = plan({ ...resuming, pod, sandbox: inPhase("Resuming", ramet) });
        expect(own.actions).toContainEqual({ do: "deletePod", pod });
        expect(own.status).toMatchObject({ phase: "Resuming", ramet: { ...ramet, endedPods: ["next"] } });
        expect(own.transitions?.map(({ note }) => note)).toContainEqual(expect.stringContaining(`(${cause})`));
      }
      const again = plan({ ...resuming, pod, sandbox: inPhase("Resuming", { endedPods: ["next"] }) });
      expect(again.status?.ramet?.endedPods).toEqual(["next"]);
      expect(again.transitions ?? []).toEqual([]);
      const paused = plan({ ...resuming, pod, sandbox: inPhase("Resuming", underWay(), { paused: true }) });
      expect(paused.actions).toContainEqual({ do: "deletePod", pod });
      expect(paused.status?.phase).toBe("Paused");
    });

    it("gets another one after a while if the store cannot be read, as often as that takes, or is paused meanwhile", () => {
      const error = new RametError("StoreUnavailable", "The store did not respond");
      const parts = { ...resuming, start: { state: "failed" as const, error }, sandbox: inPhase("Resuming", {}) };
      const first = plan({ ...parts, pod: next({}), now: after(10) });
      expect(first.actions.filter(({ do: what }) => what === "deletePod")).toEqual([]);
      expect(first.requeueAfterMilliseconds).toBe(5_000);
      const paused = plan({ ...parts, pod: next({}), sandbox: inPhase("Resuming", {}, { paused: true }) });
      expect(paused.status?.phase).toBe("Paused");
      const cell = JSON.stringify({ code: error.code, message: error.message });
      const ended = next({
        containerStatuses: [{ name: "main", state: { terminated: { exitCode: 1, message: cell } } }],
      });
      for (const own of [{ pod: next({}) }, { pod: ended, start: undefined }]) {
        const { actions, status } = plan({ ...parts, ...own, now: after(30) });
        expect(actions).toContainEqual({ do: "deletePod", pod: own.pod });
        expect(status?.phase).toBe("Resuming");
        expect(findCondition(status?.conditions, "Ready")?.reason).toBe("StoreUnavailable");
      }
    });

    it("fails with its checkpoint after three of them, and at once if what its template has ends every Pod", () => {
      const own = inPhase("Resuming", underWay());
      const tried = inPhase("Resuming", { ...underWay(), endedPods: ["1", "2", "3"] });
      const byTemplate: object[] = [
        cell({ exitCode: 137, reason: "OOMKilled" }),
        { initContainerStatuses: [{ name: "init", state: { terminated: { exitCode: 1 } } }] },
        { reason: "Evicted", message: "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi." },
      ];
      const all = [{ pod: next({ reason: "Evicted" }), sandbox: tried }];
      for (const parts of [...all, ...byTemplate.map((status) => ({ pod: next(status), sandbox: own }))]) {
        const { actions, status } = plan({ ...resuming, ...parts });
        expect(actions.filter(({ do: what }) => what === "deletePod")).toEqual([]);
        expect(status?.phase).toBe("Failed");
      }
    });
  });

  it("keeps the Pod of a resume that a user has requested", () => {
    const own = inPhase("Resuming", underWay("Paused"));
    const { actions, status } = plan({ ...resuming, sandbox: own, now: after(3_600) });
    expect(actions.filter(({ do: what }) => what === "deletePod")).toEqual([]);
    expect(status?.phase).toBe("Resuming");
    expect(status?.ramet).not.toHaveProperty("noTarget");
  });
});
