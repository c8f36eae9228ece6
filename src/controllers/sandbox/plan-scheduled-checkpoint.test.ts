import { describe, expect, it } from "vitest";
import { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { Sandbox } from "../../api/kinds/sandbox.ts";
import { annotations, labels } from "../../api/names/labels.ts";
import { Pod } from "../../api/schema/pod.ts";
import { RametError } from "../../base/errors.ts";
import { findCondition } from "../../kube/conditions.ts";
import { NodeTurns } from "./node-turns.ts";
import { planSandbox } from "./plan.ts";
import { withRefusedCheckpoint } from "./plan-scheduled-checkpoint.ts";
import type { SandboxState } from "./state.ts";
import { stateWith } from "../../../test/setup/sandbox-state.ts";

const start = Date.parse("2030-01-01T00:00:00Z");
const after = (minutes: number) => new Date(start + minutes * 60_000);
const apiVersion = "agents.kruise.io/v1alpha1";
const meta = (name: string, more: object = {}) => ({
  name,
  namespace: "t",
  uid: `uid-${name}`,
  resourceVersion: "1",
  creationTimestamp: after(0).toISOString(),
  ...more,
});
const ready = {
  type: "Ready",
  status: "True",
  reason: "PodReady",
  message: "",
  lastTransitionTime: after(0).toISOString(),
};
const unready = { ...ready, status: "False", reason: "SandboxNotReady" };
const sandbox = ({
  name = "a",
  ramet = {},
  metadata = {},
  phase = "Running",
  spec = {},
  conditions = [ready],
} = {}): Sandbox =>
  Sandbox.parse({
    apiVersion,
    kind: "Sandbox",
    metadata: meta(name, { finalizers: ["agents.kruise.io/sandbox"], ...metadata }),
    spec,
    status: { phase, podInfo: { podUID: "pod" }, conditions, ramet },
  });
const pod = (own: Record<string, string> = {}, nodeName = "node-1"): Pod =>
  Pod.parse({
    metadata: meta("a", { uid: "pod", annotations: { [annotations.checkpointEvery]: "10m", ...own } }),
    spec: { nodeName, containers: [{ name: "main", image: "cell" }] },
    status: { phase: "Running", podIP: "10.0.0.1" },
  });
interface Of {
  at?: number;
  phase?: string;
  podUid?: string;
  status?: object;
}
const checkpoint = (name: string, { at = 0, phase = "Succeeded", podUid = "pod", status = {} }: Of = {}): Checkpoint =>
  Checkpoint.parse({
    apiVersion,
    kind: "Checkpoint",
    metadata: meta(name, {
      creationTimestamp: after(at).toISOString(),
      labels: { [labels.purpose]: "automatic" },
      annotations: { [annotations.podUid]: podUid },
    }),
    spec: { sandboxName: "a" },
    status: { phase, checkpointId: `id-${name}`, ramet: { cutAt: after(at).toISOString() }, ...status },
  });
const known = (outcome: string, at: number, more: object = {}) => ({
  automatic: { outcome, at: after(at).toISOString(), ...more },
});
const plan = (parts: Partial<SandboxState>, minutes = 0) =>
  planSandbox(stateWith({ sandbox: sandbox(), pod: pod(), now: after(minutes), ...parts }));
const done = (parts: Partial<SandboxState>, minutes = 0) => plan(parts, minutes).actions.map((action) => action.do);
const activity = (of: object): SandboxState["activity"] => ({
  state: "done",
  value: { checkpointId: "id-one", milliseconds: 600_000, cpuMilliseconds: 0, bytes: 0, ...of },
});
const saved = [checkpoint("one")];

describe("a running sandbox with checkpoint-every", () => {
  it("is captured when the interval is over, not before, and at a time of its own", () => {
    expect(done({}, 7)).toEqual([]);
    expect(plan({}, 7).requeueAfterMilliseconds).toBeLessThanOrEqual(180_000);
    const { actions, status } = plan({}, 10);
    expect(actions).toMatchObject([{ do: "createAutomaticCheckpoint", persistentContents: [] }]);
    expect(status).toMatchObject({ phase: "Running", ramet: { automatic: { outcome: "Taking" } } });
    const delays = new Set(
      Array.from({ length: 500 }, (_, index) => {
        const own = sandbox({ name: `s-${index}` });
        return Math.floor((plan({ sandbox: own }).requeueAfterMilliseconds ?? 0) / 1000);
      }),
    );
    // 150 seconds are 25 % of the interval.
    expect(delays.size).toBeGreaterThan(120);
    expect(Math.max(...delays)).toBeLessThanOrEqual(600);
  });

  it.each([
    ["has no interval", { pod: pod({ [annotations.checkpointEvery]: "none" }) }],
    ["has an interval that a user made invalid", { pod: pod({ [annotations.checkpointEvery]: "1s" }) }],
    [
      "is being rolled back",
      { rollback: { request: { to: "x", digest: "d" }, origin: { kind: "new" as const }, needsNewPod: false } },
    ],
    ["waits for its turn on the node", { hasTurn: false }],
    ["is captured for somebody", { otherCheckpoint: checkpoint("user", { phase: "Creating" }) }],
  ])("is not captured if it %s", (_, parts) => {
    expect(done(parts, 20)).not.toContain("createAutomaticCheckpoint");
  });

  it("of a set is captured only when it is claimed", () => {
    const owner = { apiVersion, kind: "SandboxSet", name: "s", uid: "s", controller: true };
    const ofSet = (claimed: string, more: object = {}) =>
      sandbox({
        metadata: { ownerReferences: [owner], labels: { [labels.sandboxClaimed]: claimed }, annotations: more },
      });
    expect(done({ sandbox: ofSet("false") }, 20)).toEqual([]);
    expect(done({ sandbox: ofSet("true") }, 20)).toEqual(["createAutomaticCheckpoint"]);
    const claimedNow = { [annotations.claimTimestamp]: after(20).toISOString() };
    expect(done({ sandbox: ofSet("true", claimedNow) }, 20)).toEqual([]);
  });

  it("is asked what it has done, and then not captured if that is nothing", () => {
    const own = { sandbox: sandbox({ ramet: known("Taken", 0) }), automatic: saved };
    expect(done(own, 10)).toEqual(["readActivity"]);
    expect(done({ ...own, activity: { state: "running", failures: 0 } }, 10)).toEqual([]);
    const { actions, status } = plan({ ...own, activity: activity({ cpuMilliseconds: 20 }) }, 10);
    expect(actions).toEqual([]);
    expect(status?.ramet?.automatic).toEqual({
      outcome: "Skipped",
      at: after(10).toISOString(),
      message: "The sandbox has done nothing since one: 20 ms of CPU time",
      checkpoint: "one",
      savedAt: after(0).toISOString(),
    });
    expect(done({ ...own, sandbox: sandbox({ ramet: status?.ramet ?? {} }) }, 11)).toEqual([]);
  });

  it.each([
    ["it has used CPU time", activity({ cpuMilliseconds: 10_000 })],
    ["a client has exchanged a byte with it", activity({ bytes: 1 })],
    ["another capture came after the automatic one", activity({ checkpointId: "id-user" })],
    ["its cell does not know", { state: "done" as const, value: undefined }],
    ["its cell does not respond", { state: "failed" as const, error: new RametError("Timeout", "no answer") }],
  ])("is captured again if %s", (_, seen) => {
    const own = { sandbox: sandbox({ ramet: known("Taken", 0) }), automatic: saved, activity: seen };
    expect(done(own, 10)).toEqual(["createAutomaticCheckpoint"]);
  });

  it("is captured after some intervals although it has used little CPU time in each", () => {
    const own = { sandbox: sandbox({ ramet: known("Skipped", 50) }), automatic: saved };
    const after = (minutes: number) =>
      done({ ...own, activity: activity({ milliseconds: minutes * 60_000, cpuMilliseconds: minutes * 50 }) }, 60);
    expect(after(10)).toEqual([]);
    expect(after(20)).toEqual(["createAutomaticCheckpoint"]);
    expect(after(60)).toEqual(["createAutomaticCheckpoint"]);
  });

  it.each([
    ["in another Pod", [checkpoint("one", { podUid: "earlier" })]],
    [
      "and its data was lost",
      [checkpoint("one", { status: { conditions: [{ ...ready, type: "DataAvailable", status: "False" }] } })],
    ],
  ])("is captured without a question if the last one was taken %s", (_, automatic) => {
    expect(done({ automatic, sandbox: sandbox({ ramet: known("Taken", 0) }) }, 10)).toEqual([
      "createAutomaticCheckpoint",
    ]);
  });

  it("creates the Checkpoint again until it is seen, under one name, and writes no status meanwhile", () => {
    const first = plan({}, 10);
    const own = sandbox({ ramet: first.status?.ramet ?? {} });
    const again = plan({ sandbox: own }, 10.1);
    expect(again.actions).toEqual(first.actions);
    expect(again.status?.ramet).toEqual(own.status?.ramet);
    const name = own.status?.ramet?.automatic?.taking ?? "";
    expect(done({ sandbox: own, automatic: [checkpoint(name, { phase: "Creating" })] }, 30)).toEqual([]);
  });

  it("finds the Checkpoint of a controller that has ended before it wrote the status", () => {
    const { actions, status } = plan({ automatic: [checkpoint("found", { phase: "Creating" })] }, 10);
    expect(actions).toEqual([]);
    expect(status?.ramet?.automatic).toMatchObject({ outcome: "Taking", taking: "found" });
  });

  it("keeps the last ones, and deletes none before a later one has succeeded", () => {
    const taking = sandbox({ ramet: known("Taking", 30, { taking: "four", checkpoint: "three" }) });
    const earlier = [checkpoint("two", { at: 10 }), checkpoint("three", { at: 20 })];
    const with4 = (phase: string) => [...earlier, checkpoint("four", { at: 30, phase })];
    expect(done({ sandbox: taking, automatic: with4("Creating") }, 31)).toEqual([]);
    expect(done({ sandbox: taking, automatic: with4("Failed") }, 31)).toEqual(["deleteCheckpoint"]);
    const { actions, status } = plan({ sandbox: taking, automatic: with4("Succeeded") }, 31);
    expect(actions).toMatchObject([{ do: "deleteCheckpoint", checkpoint: { metadata: { name: "two" } } }]);
    expect(status?.ramet?.automatic).toMatchObject({
      outcome: "Taken",
      checkpoint: "four",
      savedAt: after(30).toISOString(),
    });
    const kept = { sandbox: taking, automatic: with4("Succeeded"), pod: pod({ [annotations.checkpointsKept]: "3" }) };
    expect(done(kept, 31)).toEqual([]);
  });

  it("reports a failure, runs on, and waits longer after each one", () => {
    const problem = { code: "QuotaExceeded", cause: "the namespace is full" };
    const failed = checkpoint("one", {
      phase: "Failed",
      status: { message: "full", ramet: { problems: { Ready: problem } } },
    });
    const ramet = known("Taking", 10, { taking: "one" });
    const { status, transitions, actions } = plan({ sandbox: sandbox({ ramet }), automatic: [failed] }, 11);
    expect(status).toMatchObject({ phase: "Running", ramet: { automatic: { outcome: "Failed", failures: 1 } } });
    expect(findCondition(status?.conditions, "CheckpointsTaken")).toMatchObject({ status: "False" });
    expect(transitions).toMatchObject([{ type: "Warning", reason: "CheckpointFailed" }]);
    expect(actions).toMatchObject([{ do: "deleteCheckpoint" }]);
    const dueWithin = (failures: number, minutes: number) =>
      done({ sandbox: sandbox({ ramet: known("Failed", 0, { failures }) }) }, minutes).length > 0;
    expect([1, 2, 5, 20].map((failures) => dueWithin(failures, 2))).toEqual([true, true, false, false]);
    expect(dueWithin(20, 60)).toBe(true);
  });

  it("is repeated later and later if its Checkpoint is refused, and the rest of the status is written", () => {
    const refusal = new RametError("Forbidden", "exceeded quota", { hint: "Ask for more" });
    const state = stateWith({ sandbox: sandbox(), pod: pod(), now: after(10) });
    const first = withRefusedCheckpoint(state, planSandbox(state), refusal);
    expect(first.status).toMatchObject({
      phase: "Running",
      ramet: {
        automatic: { outcome: "Failed", failures: 1, message: expect.stringContaining("exceeded quota") as string },
      },
    });
    expect(findCondition(first.status?.conditions, "CheckpointsTaken")).toMatchObject({
      status: "False",
      reason: "Forbidden",
    });
    expect(first.transitions).toMatchObject([{ type: "Warning", reason: "CheckpointFailed" }]);
    const later = stateWith({ sandbox: sandbox({ ramet: first.status?.ramet ?? {} }), pod: pod(), now: after(11) });
    const second = withRefusedCheckpoint(later, planSandbox(later), refusal);
    expect(second.status?.ramet?.automatic).toMatchObject({ outcome: "Failed", failures: 2 });
    expect(second.transitions).toBeUndefined();
    expect(done({ sandbox: sandbox({ ramet: second.status?.ramet ?? {} }) }, 12)).toEqual([]);
    expect(done({ sandbox: sandbox({ ramet: second.status?.ramet ?? {} }) }, 13)).toEqual([
      "createAutomaticCheckpoint",
    ]);
  });

  it("with PersistentVolumeClaims is not captured, and says so", () => {
    const { status, actions } = plan({ sandbox: sandbox({ ramet: { claims: ["data"] } }) }, 10);
    expect(actions).toEqual([]);
    expect(findCondition(status?.conditions, "CheckpointsTaken")).toMatchObject({ reason: "VolumesNotCaptured" });
    expect(status?.ramet?.automatic?.outcome).toBe("Skipped");
  });

  it("loses its automatic checkpoints with its end", () => {
    const deleted = sandbox({ metadata: { deletionTimestamp: after(1).toISOString() } });
    expect(done({ sandbox: deleted, pod: undefined, automatic: saved }, 1)).toEqual([
      "deleteCheckpoint",
      "removeFinalizer",
    ]);
  });
});

describe("the turns of a node", () => {
  const stateOf = (name: string, nodeName = "node-1", ramet: object = {}) =>
    stateWith({ sandbox: sandbox({ name, ramet }), pod: pod({}, nodeName), now: after(20) });
  const takes = (turns: NodeTurns, ...of: Parameters<typeof stateOf>) =>
    turns.plan(stateOf(...of), planSandbox).actions.length > 0;

  it("let two sandboxes of a node be captured at the same time, and the next one when one has ended", () => {
    const turns = new NodeTurns();
    expect(["a", "b", "c"].map((name) => takes(turns, name))).toEqual([true, true, false]);
    expect(takes(turns, "d", "node-2")).toBe(true);
    takes(turns, "a", "node-1", known("Taken", 20));
    expect(takes(turns, "c")).toBe(true);
    turns.forget("t/b");
    expect(takes(turns, "e")).toBe(true);
  });

  it.each([
    ["becomes unready, and its checkpoint succeeds", "Succeeded", { conditions: [unready] }],
    ["becomes unready, and its checkpoint fails", "Failed", { conditions: [unready] }],
    ["shall be paused, and its pause fails", "Succeeded", { spec: { paused: true } }],
  ])("end for a sandbox that %s", (_, phase, more) => {
    const turns = new NodeTurns();
    const plans = ["a", "b"].map((name) =>
      turns.plan(
        stateWith({
          sandbox: sandbox({ name, ramet: known("Taking", 20, { taking: name }), ...more }),
          pod: pod(),
          now: after(21),
          automatic: [checkpoint(name, { phase })],
        }),
        planSandbox,
      ),
    );
    expect(takes(turns, "c")).toBe(true);
    if (!("conditions" in more)) return;
    const outcome = phase === "Succeeded" ? "Taken" : "Failed";
    expect(plans.map(({ status }) => status?.ramet?.automatic?.outcome)).toEqual([outcome, outcome]);
  });

  it("end for a sandbox that becomes unready before its Checkpoint exists", () => {
    const turns = new NodeTurns();
    const ramet = known("Taking", 20, { taking: "one" });
    const state = stateWith({
      sandbox: sandbox({ ramet, conditions: [unready] }),
      pod: pod(),
      now: after(21),
    });
    const { actions, status } = turns.plan(state, planSandbox);
    expect(actions).toEqual([]);
    expect(status?.ramet?.automatic).toMatchObject({
      outcome: "Skipped",
      message: "It cannot be captured now",
    });
  });

  it("end after ten minutes, also for sandboxes that are never seen again", () => {
    const turns = new NodeTurns();
    const takesAt = (name: string, minutes: number) =>
      turns.plan({ ...stateOf(name), now: after(minutes) }, planSandbox).actions.length > 0;
    expect(["a", "b", "c"].map((name) => takesAt(name, 20))).toEqual([true, true, false]);
    expect(takesAt("c", 29)).toBe(false);
    expect(takesAt("c", 31)).toBe(true);
  });

  it("are known after a restart", () => {
    const turns = new NodeTurns();
    for (const name of ["a", "b"])
      turns.plan(stateOf(name, "node-1", known("Taking", 20, { taking: name })), planSandbox);
    expect(takes(turns, "c")).toBe(false);
  });
});
