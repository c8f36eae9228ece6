import { describe, expect, it } from "vitest";
import { stateWith } from "../../../test/setup/sandbox-state.ts";
import { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { Sandbox } from "../../api/kinds/sandbox.ts";
import { annotations, labels } from "../../api/names/labels.ts";
import { Pod } from "../../api/schema/pod.ts";
import { RametError } from "../../base/errors.ts";
import { findCondition } from "../../kube/conditions.ts";
import { disruptionCheckpointName, pauseCheckpointOf } from "../cluster/pause-checkpoint.ts";
import { planUnsaved } from "./plan-disruption.ts";
import { planSandbox } from "./plan.ts";
import type { SandboxState } from "./state.ts";

const now = new Date("2030-01-01T12:10:00Z");
const savedAt = "2030-01-01T12:03:00.000Z";
const apiVersion = "agents.kruise.io/v1alpha1";
const meta = (name: string, more: object = {}) => ({
  name,
  namespace: "t",
  uid: `uid-${name}`,
  resourceVersion: "1",
  creationTimestamp: savedAt,
  ...more,
});

interface Of {
  policy?: string;
  ramet?: object;
  spec?: object;
  phase?: string;
  podUID?: string;
  metadata?: object;
}
const sandbox = ({
  policy = "Migrate",
  ramet = {},
  spec = {},
  phase = "Running",
  podUID = "old",
  metadata = {},
}: Of = {}): Sandbox =>
  Sandbox.parse({
    apiVersion,
    kind: "Sandbox",
    metadata: meta("a", { finalizers: ["agents.kruise.io/sandbox"], ...metadata }),
    spec,
    status: {
      phase,
      sandboxIp: "10.0.0.1",
      podInfo: { podUID, annotations: { [annotations.onDisruption]: policy } },
      conditions: [{ type: "Ready", status: "True", reason: "PodReady", message: "", lastTransitionTime: savedAt }],
      ramet: { cellKey: "key", ...ramet },
    },
  });
interface PodOf {
  policy?: string;
  phase?: string;
  status?: object;
  cell?: object;
  metadata?: object;
}
const pod = ({ policy = "Migrate", phase = "Failed", status = {}, cell, metadata = {} }: PodOf = {}): Pod =>
  Pod.parse({
    metadata: meta("a", { uid: "old", annotations: { [annotations.onDisruption]: policy }, ...metadata }),
    spec: { nodeName: "n", terminationGracePeriodSeconds: 30, containers: [{ name: "main", image: "cell" }] },
    status: {
      phase,
      podIP: "10.0.0.1",
      ...(cell !== undefined && { containerStatuses: [{ name: "main", state: { terminated: cell } }] }),
      ...status,
    },
  });
const digestOf = (digest: string) => ({ [annotations.rollbackDigest]: digest });
interface AutoOf {
  annotations?: object;
  phase?: string;
  cutAt?: string;
}
const auto = (
  name = "a-auto",
  { annotations: given = {}, phase = "Succeeded", cutAt = savedAt }: AutoOf = {},
): Checkpoint =>
  Checkpoint.parse({
    apiVersion,
    kind: "Checkpoint",
    metadata: meta(name, { labels: { [labels.purpose]: "automatic" }, annotations: given }),
    spec: { sandboxName: "a" },
    status: { phase, checkpointId: `id-${name}`, ramet: { cutAt } },
  });
const migrating = sandbox({
  ramet: { disruption: { cause: "NodeTaint", at: savedAt, outcome: "Migrating", podUID: "old" } },
});
const capture = (phase: string): Checkpoint =>
  Checkpoint.parse({
    apiVersion,
    kind: "Checkpoint",
    metadata: meta(disruptionCheckpointName(migrating), { labels: { [labels.purpose]: "pause" } }),
    spec: { sandboxName: "a" },
    status: { phase, message: "x" },
  });
const ending = { deletionTimestamp: savedAt };
const killed = { exitCode: 137, reason: "Error" };
const plan = (parts: Partial<SandboxState> = {}) =>
  planSandbox(stateWith({ sandbox: sandbox(), pod: pod({ cell: killed }), now, automatic: [auto()], ...parts }));
const restored = (more: object = {}) => ({
  disruption: {
    cause: "CellDied",
    at: savedAt,
    outcome: "Restored",
    podUID: "earlier",
    checkpoint: "a-auto",
    endedAt: "2030-01-01T12:09:30Z",
    attempts: 1,
    ...more,
  },
});

describe("a sandbox whose Pod is lost", () => {
  it.each([
    ["its cell was killed", { cell: killed }, "CellDied"],
    ["its machine has crashed", { cell: { exitCode: 255, reason: "ContainerStatusUnknown" } }, "CellDied"],
    [
      "gVisor has ended",
      { cell: { exitCode: 70, message: JSON.stringify({ code: "SandboxLost", message: "x" }) } },
      "CellDied",
    ],
    ["the kubelet has evicted it", { status: { reason: "Evicted" }, cell: killed }, "Evicted"],
    ["the node was shut down", { status: { reason: "Terminated" }, cell: killed }, "NodeShutdown"],
    [
      "the Node object was deleted",
      { status: { conditions: [{ type: "DisruptionTarget", status: "True", reason: "DeletionByPodGC" }] } },
      "NodeLost",
    ],
  ])("continues from its last checkpoint if %s", (_, of, cause) => {
    const { actions, status, transitions } = plan({ pod: pod(of) });
    expect(actions.filter((action) => action.do !== "stopUnseen")).toEqual([]);
    expect(status).toMatchObject({
      phase: "Paused",
      message: `Its Pod was lost (${cause}), and it continues in another Pod from the checkpoint a-auto of ${savedAt}; later work is lost`,
      ramet: { disruption: { cause, outcome: "Restoring", podUID: "old", checkpoint: "a-auto", savedAt, attempts: 1 } },
    });
    expect(transitions).toMatchObject([{ reason: "SandboxDisrupted" }, { reason: "SandboxPaused" }]);
    const next = sandbox({ ramet: status?.ramet ?? {}, phase: "Paused" });
    expect(pauseCheckpointOf(next, [auto()])?.metadata.name).toBe("a-auto");
  });

  it("says that the disk limit of its Pod has ended it, from what it continues, and what to do", () => {
    const words = "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi";
    const evicted = pod({ status: { reason: "Evicted", message: `${words}. ` }, cell: killed });
    const { status, transitions } = plan({ pod: evicted });
    const cause = `It used more disk than its Pod's limit allows, and the node has ended it without a capture: ${words}`;
    expect(status?.message).toContain(`from the checkpoint a-auto of ${savedAt}; later work is lost. ${cause}`);
    expect(transitions?.[0]?.note).toContain(cause);
    const { disruption } = status?.ramet ?? {};
    expect(disruption).toMatchObject({ checkpoint: "a-auto", problem: { code: "Evicted", cause } });
    const failed = plan({ pod: evicted, automatic: [] });
    expect(failed.status).toMatchObject({ phase: "Failed", ramet: { disruption: { outcome: "Lost" } } });
    expect(failed.status?.message).toContain(cause);
    expect(failed.transitions?.[0]?.note).toContain(cause);
  });

  it.each([
    ["its memory limit", { cell: { exitCode: 137, reason: "OOMKilled" } }],
    [
      "the memory limit that its cell enforces",
      { cell: { exitCode: 70, message: JSON.stringify({ code: "OutOfMemory", message: "x" }) } },
    ],
    ["its own deadline", { status: { reason: "DeadlineExceeded" } }],
    ["its entrypoint, with an error", { cell: { exitCode: 1, message: "the entrypoint exited with code 1" } }],
    ["its entrypoint", { phase: "Succeeded", cell: { exitCode: 0 } }],
  ])("ends as before if that was %s", (_, of) => {
    const { status } = plan({ pod: pod(of) });
    expect(status?.phase).toBe("phase" in of ? of.phase : "Failed");
    expect(status?.ramet?.disruption).toBeUndefined();
  });

  const removed = { podUID: "old", podIP: "10.0.0.1", cellKey: "key", at: now.toISOString() };
  const byPodGc = pod({
    status: { conditions: [{ type: "DisruptionTarget", status: "True", reason: "DeletionByPodGC" }] },
  });
  // As on a kubelet's cluster, where the cause of its deletion stays.
  const byPodGcLater = pod({
    metadata: ending,
    status: {
      conditions: [{ type: "DisruptionTarget", status: "True", reason: "DeletionByTaintManager" }],
      containerStatuses: [{ name: "main", state: { running: { startedAt: now.toISOString() } } }],
    },
  });
  const target = {
    namespace: "t",
    name: "a",
    podIp: "10.0.0.1",
    cellKey: "key",
    podUid: "old",
    uid: "uid-a",
    claims: [],
  };
  const stopsOld = { do: "stopUnseen", target };
  it.each([
    ["is gone without the word of its node", { pod: undefined }, "PodDeleted"],
    ["was ended by Kubernetes, for a node that is silent", { pod: byPodGc }, "NodeLost"],
    ["was ended by Kubernetes after its deletion for a taint", { pod: byPodGcLater }, "NodeTaint"],
    [
      "is still being ended, and could not be captured",
      { pod: pod({ phase: "Running", metadata: ending }) },
      "PodDeleted",
    ],
  ])("is stopped where it may still run, and its status says where, if its Pod %s", (_, parts, cause) => {
    const failed = capture("Failed");
    const { actions, status } = plan({ ...parts, pauseCheckpoint: failed });
    expect(actions).toContainEqual(stopsOld);
    expect(status?.ramet).toMatchObject({ disruption: { cause, outcome: "Restoring" }, removedPods: [removed] });
  });

  const stopped = {
    sandbox: sandbox({
      ramet: { disruption: { ...removed, cause: "CellDied", outcome: "Restored", podUID: "earlier", checkpoint: "c" } },
      spec: { paused: true, pauseStrategy: { type: "Stop" } },
    }),
  };
  it.each([
    ["nothing was saved", { automatic: [], pod: undefined }, [removed]],
    ["Kubernetes has ended its Pod", { automatic: [], pod: byPodGc }, [removed]],
    ["its node has ended it", { automatic: [] }, undefined],
    [
      "it was captured before",
      { pod: undefined, sandbox: migrating, pauseCheckpoint: capture("Succeeded") },
      undefined,
    ],
    ["a user pauses it later, and it has been lost before", { ...stopped, pod: pod({ phase: "Running" }) }, undefined],
  ])("is stopped also if it does not continue, unless it certainly runs no more: %s", (_, parts, expected) => {
    const { status } = plan(parts);
    expect(status?.phase).not.toBe("Running");
    expect(status?.ramet?.removedPods).toEqual(expected);
  });

  describe("and whose old Pod may still run", () => {
    const later = (seconds: number) => new Date(now.getTime() + seconds * 1000);
    const inPhase = (phase: string) => sandbox({ phase, podUID: "new", ramet: { removedPods: [removed] } });
    const next = pod({ phase: "Running", metadata: { uid: "new" } });

    it.each(["Paused", "Resuming", "Running", "Failed"])("is stopped by any controllers while it is %s", (phase) => {
      const { actions, requeueAfterMilliseconds = Infinity } = plan({ sandbox: inPhase(phase), pod: next });
      expect(actions).toContainEqual(stopsOld);
      expect(requeueAfterMilliseconds).toBeLessThanOrEqual(30_000);
    });

    it.each([
      ["its cell has answered", { removedStopped: new Set(["old"]), now: later(5) }],
      ["ten minutes have passed", { now: later(600) }],
    ])("is not called any more when %s", (_, parts) => {
      const { actions, status } = plan({ sandbox: inPhase("Running"), pod: next, automatic: [], ...parts });
      expect(actions).toEqual([{ do: "forgetUnseen", podUid: "old" }]);
      expect(status?.ramet).not.toHaveProperty("removedPods");
      expect(status?.phase).toBe("Running");
    });

    it("is still known when the next Pod responds", () => {
      const started = { state: "done" as const, value: { generation: 1, phases: {}, cellKey: "other" } };
      const { status } = plan({ sandbox: inPhase("Resuming"), pod: next, start: started });
      expect(status).toMatchObject({ phase: "Running", ramet: { cellKey: "other", removedPods: [removed] } });
    });
  });

  it("gets no other Pod while an object says that the old one may run", () => {
    const silent = pod({ phase: "Running", metadata: { deletionTimestamp: savedAt } });
    const held = sandbox({ phase: "Paused", ramet: restored({ outcome: "Restoring", podUID: "old" }) });
    const own = { sandbox: held, pauseCheckpoint: auto() };
    expect(plan({ ...own, pod: silent }).actions).toEqual([]);
    const gone = plan({ ...own, pod: undefined });
    expect(gone.status?.phase).toBe("Resuming");
  });

  it.each([
    ["its policy is End", { sandbox: sandbox({ policy: "End" }), pod: undefined }],
    ["it has no checkpoint", { automatic: [] }],
    ["its checkpoint is not complete", { automatic: [auto("a-auto", { phase: "Creating" })] }],
    ["it was rolled back since", { sandbox: sandbox({ ramet: { rollback: { request: "later" } } }) }],
  ])("fails if %s", (_, parts) => {
    expect(plan(parts).status?.phase).toBe("Failed");
  });

  it("becomes paused with the policy Pause, and stays so", () => {
    const { actions, status } = plan({ pod: pod({ policy: "Pause", cell: killed }) });
    expect(actions).toEqual([{ do: "setPaused", shutdownTime: null }]);
    expect(status?.ramet?.disruption).toMatchObject({ outcome: "Paused", checkpoint: "a-auto" });
    expect(findCondition(status?.conditions, "SandboxPaused")).toMatchObject({ reason: "CheckpointSucceeded" });
    const hardEnd = sandbox({ metadata: { annotations: { [annotations.clientHardLife]: "2030-01-02T00:00:00Z" } } });
    const kept = plan({ sandbox: hardEnd, pod: pod({ policy: "Pause", cell: killed }) });
    expect(kept.actions).toEqual([{ do: "setPaused" }]);
  });

  it.each([
    ["soon", { outcome: "Restored", endedAt: "2030-01-01T12:09:30Z", checkpoint: "earlier" }, 2],
    ["later, for the same reason and from the same checkpoint", { endedAt: "2030-01-01T11:00:00Z" }, 2],
    ["later, from another checkpoint", { endedAt: "2030-01-01T11:00:00Z", checkpoint: "earlier" }, 1],
  ])("counts the attempts if it is lost again %s", (_, before, attempts) => {
    const { status } = plan({ sandbox: sandbox({ ramet: restored(before) }) });
    expect(status?.ramet?.disruption).toMatchObject({ outcome: "Restoring", attempts });
  });

  it("fails after three attempts, keeps its checkpoint, and says how to try it again", () => {
    const { actions, status } = plan({ sandbox: sandbox({ ramet: restored({ attempts: 3 }) }) });
    expect(actions).toEqual([]);
    expect(status).toMatchObject({ phase: "Failed", ramet: { disruption: { outcome: "Lost" } } });
    expect(status?.message).toContain(
      "after it had continued 3 times from an automatic checkpoint. The checkpoint a-auto is kept",
    );
    expect(status?.message).toContain("ramet rollback a id-a-auto -n t");
  });

  it.each([
    [
      "its grace period was too short",
      pod({ phase: "Succeeded", cell: { exitCode: 0 }, metadata: { deletionTimestamp: savedAt } }),
      "NodeTaint",
    ],
    ["its silent node was removed", undefined, "NodeLost"],
  ])("continues if it could not be captured, because %s", (_, own, cause) => {
    const { status } = plan({ sandbox: migrating, pod: own, pauseCheckpoint: capture("Failed") });
    expect(status?.ramet?.disruption).toMatchObject({ cause, outcome: "Restoring", at: savedAt, checkpoint: "a-auto" });
  });

  const finished = (second: number) => `2030-01-01T12:05:${String(second).padStart(2, "0")}Z`;
  // Of 30 s, the cell leaves its program the last 11.
  const evicted = { deletionTimestamp: finished(30) };
  const oom = { exitCode: 137, reason: "OOMKilled" };
  it.each([
    ["exits with an error during a move", { cell: { exitCode: 1 } }, "Failed"],
    ["completes during a move", { phase: "Succeeded", cell: { exitCode: 0 } }, "Succeeded"],
    ["exceeds its memory limit during a move", { cell: oom }, "Failed"],
    ["exceeds its memory limit before it can be captured", { cell: oom, metadata: evicted }, "Failed"],
    ["exceeds its deadline", { status: { reason: "DeadlineExceeded" }, metadata: evicted }, "Failed"],
    ["exits while its end is held", { cell: { exitCode: 1, finishedAt: finished(12) }, metadata: evicted }, "Failed"],
    [
      "completes while its end is held",
      { phase: "Succeeded", cell: { exitCode: 0, finishedAt: finished(12) }, metadata: evicted },
      "Succeeded",
    ],
  ])("has ended as its program has if that %s", (_, of, phase) => {
    for (const pauseCheckpoint of [undefined, capture("Failed")])
      for (const automatic of [[auto()], []]) {
        const { status } = plan({ sandbox: migrating, pod: pod(of), pauseCheckpoint, automatic });
        expect(status?.phase).toBe(phase);
        expect(status?.message).not.toContain("could not be saved");
        expect(status?.ramet?.disruption).toBeUndefined();
      }
  });

  it.each([
    ["was asked to end", { cell: { exitCode: 1, finishedAt: finished(25) }, metadata: evicted }, "NodeTaint"],
    ["was killed with its cell during the capture", { cell: killed, metadata: evicted }, "NodeTaint"],
    ["was killed with its cell during a move", { cell: killed }, "CellDied"],
  ])("continues if it could not be captured and its program %s", (_, of, cause) => {
    const { status } = plan({ sandbox: migrating, pod: pod(of), pauseCheckpoint: capture("Failed") });
    expect(status?.ramet?.disruption).toMatchObject({ cause, outcome: "Restoring" });
  });

  it.each([
    ["before", { rollback: { request: "refused", refused: true } }, {}],
    ["after another rollback", { rollback: { request: "refused", refused: true, before: "one" } }, digestOf("one")],
  ])("continues from a checkpoint of %s, although a rollback was refused since", (_, ramet, given) => {
    const { status } = plan({ sandbox: sandbox({ ramet }), automatic: [auto("a-auto", { annotations: given })] });
    expect(status?.ramet?.disruption).toMatchObject({ outcome: "Restoring", checkpoint: "a-auto" });
  });
});

it("continues if the checkpoint of its disruption cannot be created", () => {
  const held = pod({ phase: "Running", metadata: ending });
  const state = stateWith({ sandbox: sandbox(), pod: held, now, automatic: [auto()] });
  const { status } = planUnsaved(state, planSandbox(state), new RametError("Forbidden", "a quota refuses it")) ?? {};
  expect(status).toMatchObject({ phase: "Paused", ramet: { disruption: { outcome: "Restoring" }, removedPods: [{}] } });
});

it("continues from the checkpoint that was taken last, also if the clock of an earlier node was ahead", () => {
  const taken = (name: string, createdAt: string, cutAt: string) => {
    const one = auto(name, { cutAt });
    return { ...one, metadata: { ...one.metadata, creationTimestamp: createdAt } };
  };
  const automatic = [
    taken("earlier", "2030-01-01T11:00:00Z", "2030-01-01T11:59:00Z"),
    taken("later", "2030-01-01T11:10:00Z", "2030-01-01T11:10:01Z"),
  ];
  const { status } = plan({ sandbox: sandbox(), pod: undefined, automatic });
  expect(status?.ramet?.disruption?.checkpoint).toBe("later");
});

describe("the automatic checkpoints of a sandbox of which none are taken", () => {
  const at = (minute: number) => `2030-01-01T12:0${minute}:00.000Z`;
  const own = [1, 2, 3, 4].map((minute) => auto(`auto-${minute}`, { cutAt: at(minute) }));
  const all = [...own, auto("failing", { phase: "Failed" }), auto("late", { phase: "Creating" })];
  const deletedBy = (parts: Partial<SandboxState>) =>
    plan({ automatic: all, ...parts }).actions.flatMap((action) =>
      action.do === "deleteCheckpoint" ? [action.checkpoint.metadata.name] : [],
    );
  const runs = pod({ phase: "Running" });

  it.each([
    ["paused", { sandbox: sandbox({ phase: "Paused", spec: { paused: true } }), pod: undefined }],
    ["without an interval", { pod: runs }],
  ])("are the last ones while it is %s", (_, parts) => {
    expect(deletedBy(parts)).toEqual(["auto-2", "auto-1", "failing"]);
  });

  it("are the one that holds it, and the last ones", () => {
    const held = sandbox({ phase: "Paused", spec: { paused: true } });
    expect(deletedBy({ sandbox: held, pod: undefined, pauseCheckpoint: own[0] })).toEqual([
      "auto-3",
      "auto-2",
      "failing",
    ]);
  });
});

describe("a Pod that was removed without the word of its node, in which the sandbox did not run yet or no longer", () => {
  const cell = { podUID: "first", podIP: "10.0.0.9", cellKey: "first-key" };
  const gone = [{ ...cell, at: now.toISOString() }];
  const image = { state: "known" as const, image: {} as never };
  const conditionOf = (status: string, reason: string) => ({
    type: "SandboxPaused",
    status,
    reason,
    message: "",
    lastTransitionTime: savedAt,
  });
  const held = (status: string): Sandbox => {
    const { status: own, ...rest } = sandbox({ phase: "Paused", spec: { paused: true } });
    return Sandbox.parse({ ...rest, status: { ...own, conditions: [conditionOf(status, "Pending")] } });
  };
  const parts = { pod: undefined, automatic: [], image, formerCells: [cell] };

  it.each(["Pending", "Resuming"])(
    "is stopped, and recorded before the next one is created, while the sandbox is %s",
    (phase) => {
      const starting = sandbox({ phase, ramet: { startingPod: cell } });
      const { actions, status } = plan({ ...parts, sandbox: starting });
      expect(actions.map((action) => action.do)).toEqual(["stopUnseen"]);
      expect(actions).toContainEqual({
        do: "stopUnseen",
        target: {
          namespace: "t",
          name: "a",
          uid: "uid-a",
          podIp: cell.podIP,
          podUid: "first",
          cellKey: "first-key",
          claims: [],
        },
      });
      expect(status).toMatchObject({ phase, ramet: { removedPods: gone } });
      expect(status?.ramet).not.toHaveProperty("startingPod");
      const again = plan({ ...parts, sandbox: sandbox({ phase, ramet: { removedPods: gone } }) });
      expect(again.status?.ramet?.removedPods ?? gone).toEqual(gone);
      expect(again.actions.map((action) => action.do)).toEqual(["createPod", "stopUnseen"]);
    },
  );

  it("is recorded also when an earlier one is dropped at the same time", () => {
    const earlier = { ...cell, podUID: "earlier", at: now.toISOString() };
    const starting = sandbox({ phase: "Resuming", ramet: { removedPods: [earlier] } });
    const stopped = plan({ ...parts, sandbox: starting, removedStopped: new Set(["earlier"]) });
    expect(stopped.status?.ramet?.removedPods).toEqual(gone);
    const five = Array.from({ length: 5 }, (_, at) => ({ ...earlier, podUID: `earlier-${at}` }));
    const full = plan({ ...parts, sandbox: sandbox({ phase: "Resuming", ramet: { removedPods: five } }) });
    expect(full.status?.ramet?.removedPods).toEqual([...five.slice(1), ...gone]);
  });

  it("is stopped when a pause is complete that has captured nothing, and not for ever", () => {
    const { actions, status } = plan({ ...parts, sandbox: held("False") });
    expect(actions).toMatchObject([{ do: "stopUnseen" }]);
    expect(status).toMatchObject({ phase: "Paused", ramet: { removedPods: gone } });
    expect(plan({ ...parts, sandbox: held("True") }).actions).toEqual([]);
    expect(plan({ ...parts, sandbox: held("False"), formerCells: [] }).status?.ramet?.removedPods).toBeUndefined();
  });

  it("is known to any controllers if its start takes long", () => {
    const starts = pod({ phase: "Running", metadata: { uid: "first" } });
    const given = { sandbox: sandbox({ phase: "Resuming" }), pod: starts, startingCell: cell };
    const running = { state: "running" as const, failures: 0 };
    const slow = plan({ ...given, start: running, slowInMilliseconds: 0 });
    expect(slow.status?.ramet?.startingPod).toEqual(cell);
    expect(plan({ ...given, start: running }).status).toBeUndefined();
    const failing = { state: "failed" as const, error: new RametError("CheckpointLost", "it is lost") };
    const failed = plan({ ...given, start: failing });
    expect(failed.status).toMatchObject({ phase: "Failed", ramet: { startingPod: cell } });
    const started = { state: "done" as const, value: { generation: 1, phases: {}, cellKey: "first-key" } };
    const known = sandbox({ phase: "Resuming", ramet: { startingPod: cell } });
    const { status } = plan({ ...given, sandbox: known, start: started });
    expect(status?.phase).toBe("Running");
    expect(status?.ramet).not.toHaveProperty("startingPod");
  });
});
