import fc from "fast-check";
import { anyNode } from "../nodes/plan-cpus.ts";
import { noRestoredVolumes } from "../volumes/restored-volumes.ts";
import { describe, expect, it } from "vitest";
import { Checkpoint, CheckpointPart } from "../../api/kinds/checkpoint.ts";
import { RametError } from "../../base/errors.ts";
import { annotations } from "../../api/names/labels.ts";
import { Pod } from "../../api/schema/pod.ts";
import { parsePodTemplate } from "../../api/schema/pod-template.ts";
import { rollbackRequest, isRollbackPending } from "../../api/names/rollback-request.ts";
import { Sandbox, type SandboxStatus } from "../../api/kinds/sandbox.ts";
import { findCondition } from "../../kube/conditions.ts";
import { otherCheckpoint } from "./gather-checkpoints.ts";
import { planSandbox } from "./plan.ts";
import { cellResources } from "../../api/pod/cell-container.ts";
import type { RestoreSource } from "../../backends/checkpoint-parts.ts";
import { lastRollback } from "../cluster/pause-checkpoint.ts";
import { needsNewPod, rollbackUnderWay } from "./rollback.ts";
import type { Origin } from "../origin/origin.ts";
import { desiredEgress } from "../origin/egress.ts";
import type { SandboxState } from "./state.ts";

const now = new Date("2030-01-01T00:00:00Z");
const apiVersion = "agents.kruise.io/v1alpha1";
const error = new RametError("TemplateMismatch", "the image differs");
const template = parsePodTemplate({ spec: { containers: [{ name: "main", image: "python" }] } });
const templateWith = (resources: object) =>
  parsePodTemplate({ spec: { containers: [{ name: "main", image: "python", resources }] } });
const resolved = { template, borrowed: false, contents: {}, pauseStrategy: undefined, volumeClaims: [] };
const checkpoint: Extract<Origin, { kind: "checkpoint" }> = {
  kind: "checkpoint",
  source: {
    name: { namespace: "t", checkpointId: "c-1" },
    parts: [],
  },
};
const anyPart = {
  backend: "cell",
  handle: "h",
  cutAt: now.toISOString(),
  consistency: "atomic",
  sizeBytes: 1,
};
const meta = (name: string, rest: object = {}) => ({
  name,
  namespace: "t",
  uid: `uid-${name}`,
  resourceVersion: "1",
  creationTimestamp: now.toISOString(),
  ...rest,
});
const pod = (uid: string, phase = "Running", isDeleting = false): Pod =>
  Pod.parse({
    metadata: meta("a", { uid, ...(isDeleting && { deletionTimestamp: now.toISOString() }) }),
    spec: { containers: [{ name: "main", image: "cell" }] },
    status: { phase, podIP: "127.0.0.1", conditions: [{ type: "Ready", status: "True" }] },
  });
const ready = { type: "Ready", status: "True", reason: "PodReady", message: "", lastTransitionTime: now.toISOString() };
const other = Checkpoint.parse({
  apiVersion,
  kind: "Checkpoint",
  metadata: meta("other"),
  spec: { sandboxName: "a" },
  status: { phase: "Creating" },
});

function sandbox(status: object, { paused = false, to = "c-1" } = {}): Sandbox {
  return Sandbox.parse({
    apiVersion,
    kind: "Sandbox",
    metadata: meta("a", {
      finalizers: ["agents.kruise.io/sandbox"],
      annotations: { [annotations.rollbackTo]: to },
    }),
    spec: { paused },
    status: { podInfo: { podUID: "old" }, conditions: [ready], ramet: { generation: 1 }, ...status },
  });
}

function stateOf(parts: Partial<SandboxState> & Pick<SandboxState, "sandbox">): SandboxState {
  const request = rollbackRequest(parts.sandbox);
  const isSettled = ["Running", "Paused", "Succeeded", "Failed"].includes(parts.sandbox.status?.phase ?? "");
  const isRequested = request !== undefined && isSettled && isRollbackPending(parts.sandbox);
  const origin = parts.origin ?? checkpoint;
  return {
    pod: undefined,
    foreignPod: undefined,
    stoppedBy: undefined,
    credentials: { credentials: undefined, digest: "none" },
    credentialsCall: undefined,
    template: resolved,
    cpus: anyNode,
    volumes: noRestoredVolumes,
    lostClaims: [],
    image: { state: "unresolved" },
    ignored: [],
    pullTimeoutInMilliseconds: undefined,
    rollback: isRequested ? { request, origin, needsNewPod: false } : undefined,
    start: undefined,
    restoreInPlace: undefined,
    adoption: undefined,
    load: undefined,
    end: undefined,
    activity: undefined,
    egress: desiredEgress({ namespace: undefined, template: undefined, sandbox: parts.sandbox }, {}),
    egressCall: undefined,
    pauseCheckpoint: undefined,
    rolledBackPause: undefined,
    orphans: [],
    otherCheckpoint: undefined,
    slowInMilliseconds: 500,
    now,
    ...parts,
    origin,
  };
}

const digest = rollbackRequest(sandbox({}))?.digest ?? "";
const underWay = {
  ramet: { generation: 1, rollback: { request: digest, checkpointId: "c-1", replacedPodUid: "old" } },
};
const rolledBack = (status: SandboxStatus | undefined) => findCondition(status?.conditions, "RolledBack");

const answered: SandboxState["start"] = {
  state: "done",
  value: { generation: 2, phases: {}, checkpointId: "c-1" },
};
const starts = fc.constantFrom<SandboxState["start"]>(
  undefined,
  { state: "running", failures: 0 },
  { state: "failed", error },
  answered,
);
const states = fc
  .record({
    phase: fc.constantFrom("Running", "Paused", "Succeeded", "Failed", "Resuming"),
    paused: fc.boolean(),
    answered: fc.boolean(),
    podUid: fc.constantFrom(undefined, "old", "new"),
    podPhase: fc.constantFrom("Running", "Failed", "Succeeded"),
    isDeleting: fc.boolean(),
    origin: fc.constantFrom<Origin>(
      checkpoint,
      { kind: "impossible", error },
      { kind: "waiting", message: "Waiting for it" },
    ),
    problem: fc.boolean(),
    otherCheckpoint: fc.constantFrom(undefined, other),
    start: starts,
    restoreInPlace: starts,
  })
  .map(
    ({
      phase,
      paused,
      answered,
      podUid,
      podPhase,
      isDeleting,
      origin,
      problem,
      otherCheckpoint,
      start,
      restoreInPlace,
    }) => {
      const ramet = { ramet: { generation: 1, rollback: { request: digest } } };
      const status = { phase, ...(phase === "Resuming" ? underWay : answered ? ramet : {}) };
      return stateOf({
        sandbox: sandbox(status, { paused }),
        pod: podUid === undefined ? undefined : pod(podUid, podPhase, isDeleting),
        origin,
        template: problem ? { problem: error } : resolved,
        otherCheckpoint,
        start,
        restoreInPlace,
      });
    },
  );

describe("a rollback", () => {
  it("changes nothing before it starts, and starts only from a checkpoint that can be restored", () => {
    fc.assert(
      fc.property(states, (state) => {
        const { status: before } = state.sandbox;
        if (before?.phase === "Resuming") return;
        const { actions, status } = planSandbox(state);
        if (before?.phase !== "Paused") expect(actions.map(({ do: what }) => what)).not.toContain("deletePod");
        // A paused sandbox can also become Resuming because a resume was requested.
        if (status?.phase !== "Resuming" || status.ramet?.rollback?.checkpointId === undefined) return;
        expect(actions).toEqual([]);
        expect([state.origin.kind, "problem" in state.template]).toEqual(["checkpoint", false]);
        expect(before?.phase).not.toBe("Paused");
        if (
          state.restoreInPlace === undefined &&
          state.pod?.metadata.uid === "old" &&
          state.pod.status?.phase === "Running"
        )
          expect(before?.phase === "Running" && state.pod.metadata.deletionTimestamp === undefined).toBe(false);
        if (before?.phase === "Running") expect(state.otherCheckpoint).toBeUndefined();
        const replaced = state.pod?.metadata.uid;
        expect(status.ramet.rollback).toEqual({
          request: digest,
          checkpointId: "c-1",
          ...(replaced !== undefined && { replacedPodUid: replaced }),
        });
      }),
    );
  });

  it("that is refused changes only its own condition, and is answered once", () => {
    fc.assert(
      fc.property(states, (state) => {
        const plan = planSandbox(state);
        const without = planSandbox({ ...state, rollback: undefined });
        const rolledBackCondition = rolledBack(plan.status);
        if (
          state.rollback === undefined ||
          rolledBackCondition?.status !== "False" ||
          plan.status?.phase === "Resuming"
        )
          return;
        const isStayingPaused = state.sandbox.status?.phase === "Paused";
        const others = plan.actions.filter(
          (action) => !(action.do === "createPauseCheckpoint" && action.stored !== undefined),
        );
        expect(others).toEqual(without.actions);
        const { conditions, ramet, ...rest } = plan.status ?? {};
        const { conditions: before, ramet: _, ...same } = without.status ?? state.sandbox.status ?? {};
        expect(rest).toEqual(same);
        expect(conditions?.filter(({ type }) => type !== "RolledBack")).toEqual(before);
        expect(rolledBackCondition.message).not.toBe("");
        if (rolledBackCondition.reason !== "Pending")
          expect(ramet?.rollback).toMatchObject({ request: digest, refused: true });
        else
          expect(isStayingPaused || state.sandbox.spec.paused === true || state.otherCheckpoint !== undefined).toBe(
            true,
          );
      }),
    );
  });

  it("replaces a Pod without room for the layers of its checkpoint, where the node limits storage", () => {
    const limits = { memory: "512Mi", "ephemeral-storage": "1Gi" };
    const limited = { ...resolved, template: templateWith({ limits }) };
    const manifestDigest = `sha256:${"a".repeat(64)}`;
    const layersOf = (sizes: Record<string, number>) =>
      Object.entries(sizes).map(([checkpointId, sizeBytes]) => ({ checkpointId, manifestDigest, sizeBytes }));
    const onLayers = (sizes: Record<string, number>): RestoreSource => {
      const part = { ...anyPart, contents: ["filesystem"], layers: layersOf(sizes) } as RestoreSource["parts"][number];
      return { name: { namespace: "t", checkpointId: "c-1" }, parts: [part] };
    };
    const nodes = (limitsStorage: boolean) => ({
      nodeCpus: { lacks: () => false, limitsStorage: () => limitsStorage },
    });
    const running = pod("old");
    /** A Pod that was created with these layers, as its cell's setting says. A sidecar comes first. */
    const podOn = (sizes: Record<string, number>, resources = cellResources({ limits })): Pod => {
      const env = [{ name: "RAMET_CELL", value: JSON.stringify({ layers: layersOf(sizes) }) }];
      const sidecar = { name: "proxy", image: "proxy", resources: { limits: { "ephemeral-storage": "1Mi" } } };
      const containers = [sidecar, { name: "main", image: "cell", resources, env }];
      return { ...running, spec: { ...running.spec, containers } };
    };
    const own = podOn({});
    const isReplaced = (one: Pod, sizes: Record<string, number>, unpacked: string[] = [], by = limited) =>
      needsNewPod(
        { sandbox: sandbox({ phase: "Running", ramet: { layers: unpacked } }), template: by, pod: one },
        onLayers(sizes),
        nodes(true),
      );
    expect(isReplaced(own, { l: 1 })).toBe(true);
    expect(isReplaced(own, { l: 0 })).toBe(false);
    expect(isReplaced(podOn({}, {}), { l: 1 }, [], resolved)).toBe(false);
    const one = sandbox({ phase: "Running" });
    expect(needsNewPod({ sandbox: one, template: limited, pod: own }, onLayers({ l: 1 }), nodes(false))).toBe(false);
    // Without layers it keeps its Pod, whatever an earlier release or an earlier template has given it.
    const raised = { ...resolved, template: templateWith({ limits: { ...limits, "ephemeral-storage": "5Gi" } }) };
    const earlier = podOn({ l: 1 }, { limits });
    for (const by of [limited, raised]) {
      expect(isReplaced(earlier, {}, [], by)).toBe(false);
      expect(isReplaced(earlier, { l: 1 }, [], by)).toBe(false);
    }
    // What it has unpacked takes no more room, and is never removed.
    expect(isReplaced(podOn({ base: 9, l: 1 }), { base: 9 })).toBe(false);
    expect(isReplaced(podOn({ l: 1 }), { l: 1, m: 1 }, ["l", "m"])).toBe(false);
    expect(isReplaced(podOn({ l: 9 }), { m: 1 }, ["l"])).toBe(true);
    // Another Pod would have no more room.
    const bare = parsePodTemplate({
      ...limited.template,
      metadata: { annotations: { [annotations.cellOverhead]: "none" } },
    });
    expect(isReplaced(own, { l: 1 }, [], { ...resolved, template: bare })).toBe(false);

    const state = stateOf({ sandbox: sandbox({ phase: "Running" }), pod: own, template: limited });
    const rollback = state.rollback && { ...state.rollback, needsNewPod: true };
    expect(planSandbox({ ...state, rollback }).status).toMatchObject({
      phase: "Resuming",
      ramet: { rollback: { replacedPodUid: "old" } },
    });
    expect(planSandbox(state).actions.map(({ do: what }) => what)).toEqual(["restoreSandboxInPlace"]);
  });

  it("reports volumes that hide captured files, in the same Pod and in another one", () => {
    const hidden = { ...checkpoint, hidden: ["/data"] };
    const inPlace = planSandbox(
      stateOf({
        sandbox: sandbox({ phase: "Running" }),
        pod: pod("old"),
        origin: hidden,
        restoreInPlace: { state: "done", value: { generation: 2, phases: {} } },
      }),
    );
    const inNewPod = planSandbox(
      stateOf({
        sandbox: sandbox({ phase: "Resuming", ...underWay }),
        pod: pod("new"),
        origin: hidden,
        start: answered,
      }),
    );
    for (const { status, transitions } of [inPlace, inNewPod]) {
      expect(status?.phase).toBe("Running");
      expect(transitions).toContainEqual({
        type: "Warning",
        reason: "FilesHidden",
        action: "Restore",
        note: "Volumes that the source of the checkpoint c-1 did not have hide its files in /data",
      });
    }
  });

  it("records the programs that a restore in place has ended, until the next request", () => {
    const programs = { ended: { processes: 2, names: ["python3"] }, running: { processes: 1, names: ["python3"] } };
    const done = { state: "done", value: { generation: 2, programs, phases: {} } } as const;
    const state = stateOf({ sandbox: sandbox({ phase: "Running" }), pod: pod("old"), restoreInPlace: done });
    const { status } = planSandbox(state);
    expect(status?.ramet?.rollback).toEqual({ request: digest, programs });
    const refused = { ...state, sandbox: sandbox({ ...status, ramet: { rollback: { request: "0", programs } } }) };
    const origin = { kind: "impossible", error } as const;
    const { request } = state.rollback!;
    const next = planSandbox({
      ...refused,
      restoreInPlace: undefined,
      rollback: { request, origin, needsNewPod: false },
    });
    expect(next.status?.ramet?.rollback).toEqual({ request: digest, refused: true, before: "0" });
  });

  it("reports what the cell does, although the checkpoint cannot be restored any more", () => {
    const world = { sandbox: sandbox({ phase: "Running" }), pod: pod("old") };
    const { request } = stateOf(world).rollback!;
    const rollback = { request, origin: { kind: "impossible", error }, needsNewPod: false } as const;
    const ofCall = (restoreInPlace: SandboxState["restoreInPlace"]) =>
      planSandbox({ ...stateOf({ ...world, restoreInPlace }), rollback });
    expect(rolledBack(ofCall(undefined).status)).toMatchObject({ status: "False" });
    const waiting = ofCall({ state: "running", failures: 0 });
    expect([waiting.actions, rolledBack(waiting.status)]).toEqual([[], undefined]);
    const { status } = ofCall(answered);
    expect(status?.ramet).toMatchObject({ generation: 2, restoredFrom: "c-1", rollback: { request: digest } });
    expect(rolledBack(status)).toMatchObject({ status: "True", reason: "Succeeded" });
  });

  it("calls the cell of a running Pod once, and reports the cell's outcome", () => {
    fc.assert(
      fc.property(starts, (restoreInPlace) => {
        const state = stateOf({ sandbox: sandbox({ phase: "Running" }), pod: pod("old"), restoreInPlace });
        const { actions, status } = planSandbox(state);
        expect(actions.map((action) => action.do)).toEqual(
          restoreInPlace === undefined ? ["restoreSandboxInPlace"] : [],
        );
        if (restoreInPlace?.state === "done") {
          expect(status).toMatchObject({ phase: "Running", ramet: { generation: 2, restoredFrom: "c-1" } });
          expect(rolledBack(status)).toMatchObject({ status: "True", reason: "Succeeded" });
        } else if (restoreInPlace?.state === "failed") {
          expect(status).toMatchObject({ phase: "Running", ramet: { rollback: { request: digest } } });
          expect(rolledBack(status)).toMatchObject({ status: "False", reason: "TemplateMismatch" });
        } else expect(rolledBack(status)).toBeUndefined();
      }),
    );
  });

  it("replaces the Pod when the program starts again and has a probe that has succeeded already", () => {
    const probed = pod("old");
    Object.assign(probed.spec.containers[0] ?? {}, { readinessProbe: { tcpSocket: { port: 80 } } });
    const planned = (contents: string[], one = probed) => {
      const part = CheckpointPart.parse({ ...anyPart, contents });
      const origin: Origin = { kind: "checkpoint", source: { ...checkpoint.source, parts: [part] } };
      const { actions, status } = planSandbox(stateOf({ sandbox: sandbox({ phase: "Running" }), pod: one, origin }));
      return [...actions.map((action) => action.do), status?.phase].join(" ");
    };
    expect(planned(["filesystem"])).toBe("Resuming");
    expect(planned(["filesystem"], pod("old"))).toContain("restoreSandboxInPlace");
    expect(planned(["memory", "filesystem"])).toContain("restoreSandboxInPlace");
  });

  it("deletes only the Pod that it replaces, while its checkpoint exists and no other is being taken, and those that have ended", () => {
    fc.assert(
      fc.property(states, (state) => {
        const { sandbox: one, origin, otherCheckpoint } = state;
        const deletions = planSandbox(state).actions.filter((action) => action.do === "deletePod");
        if (rollbackUnderWay(one) === undefined || deletions.length === 0) return;
        if (state.pod?.metadata.uid === "new") {
          expect(state.pod.status?.phase).toBe("Failed");
          return;
        }
        expect(deletions.map(({ pod: { metadata } }) => metadata.uid)).toEqual(["old"]);
        expect(origin.kind).toBe("checkpoint");
        if (state.pod?.status?.phase === "Running") expect(otherCheckpoint).toBeUndefined();
      }),
    );
  });

  it("waits until the Pod that it has deleted is gone, although its cell holds the end of a sandbox that was started there", () => {
    const its = pod("old", "Running", true);
    const held = { ...its.metadata, annotations: { [annotations.onDisruption]: "Migrate" } };
    const containerStatuses = [{ name: "main", ready: true, restartCount: 0, state: { running: {} } }];
    const ending = Pod.parse({ ...its, metadata: held, status: { ...its.status, containerStatuses } });
    const state = stateOf({
      sandbox: sandbox({ phase: "Resuming", ...underWay }),
      pod: ending,
      start: answered,
      startingCell: { podUID: "old", podIP: "127.0.0.1", cellKey: "key" },
    });
    const { actions, status } = planSandbox(state);
    expect(actions).toEqual([{ do: "intendEnd", pod: ending }]);
    expect(status).toBeUndefined();
  });

  it("does not wait for an automatic checkpoint that has not begun, and waits for those of users", () => {
    const labels = { "ramet.dev/purpose": "automatic" };
    const waiting = { ...other.metadata.annotations, [annotations.waitsTurn]: "true" };
    const checkpointOf = (metadata: object, phase = "Pending") =>
      Checkpoint.parse({ ...other, metadata: { ...other.metadata, ...metadata }, status: { phase } });
    const [ofUser, automatic, begun] = [
      checkpointOf({ annotations: waiting }),
      checkpointOf({ annotations: waiting, labels }),
      checkpointOf({ annotations: waiting, labels }, "Creating"),
    ];
    const parts = { sandbox: sandbox({ phase: "Running" }), pod: pod("old") };
    const actionsOf = (one: Checkpoint) =>
      planSandbox(stateOf({ ...parts, otherCheckpoint: one })).actions.map((action) => action.do);
    expect(actionsOf(automatic)).toEqual(["restoreSandboxInPlace"]);
    for (const one of [ofUser, begun]) expect(actionsOf(one)).toEqual([]);
    const rollingBack = stateOf({ sandbox: sandbox({ phase: "Resuming", ...underWay }), pod: pod("old") });
    const deletionsOf = (one: Checkpoint) => planSandbox({ ...rollingBack, otherCheckpoint: one }).actions.length;
    expect([automatic, ofUser, begun].map(deletionsOf)).toEqual([1, 0, 0]);
    expect(otherCheckpoint([automatic, ofUser])).toBe(ofUser);
  });

  it("that is refused after it has begun leaves the last one in effect", () => {
    const running = sandbox({ phase: "Running", ramet: { rollback: { request: "one" } } });
    const parts = { sandbox: running, pod: pod("old") };
    const rollback = { request: { to: "c-1", digest }, origin: checkpoint, needsNewPod: true };
    const begun = planSandbox({ ...stateOf(parts), rollback }).status;
    expect([begun?.phase, lastRollback(begun)]).toEqual(["Resuming", "one"]);
    const impossible = { kind: "impossible" as const, error };
    const { status } = planSandbox(stateOf({ ...parts, sandbox: sandbox({ ...begun }), origin: impossible }));
    expect(status).toMatchObject({ phase: "Running", ramet: { rollback: { request: digest, refused: true } } });
    expect(lastRollback(status)).toBe("one");
  });

  it("ends with a condition, and records the restored checkpoint only when the sandbox responds", () => {
    fc.assert(
      fc.property(states, (state) => {
        const { status } = planSandbox(state);
        if (rollbackUnderWay(state.sandbox) === undefined || status === undefined) return;
        if (status.phase === "Resuming") return;
        const { refused = false, ...answered } = status.ramet?.rollback ?? {};
        expect(answered).toEqual({ request: digest });
        const rolledBackCondition = rolledBack(status);
        if (refused) expect(rolledBackCondition?.status).toBe("False");
        const isRestored =
          status.phase === "Running" && state.start?.state === "done" && rolledBackCondition?.status === "True";
        expect(status.ramet?.restoredFrom).toBe(isRestored ? "c-1" : undefined);
        if (!isRestored)
          expect(rolledBackCondition).toMatchObject({ status: "False", message: expect.stringMatching(/./) as string });
      }),
    );
  });

  it("completes from every settled phase, even if the controller restarts before any step", () => {
    fc.assert(
      fc.property(
        fc.constantFrom("Running", "Succeeded", "Failed"),
        fc.array(fc.boolean(), { minLength: 12, maxLength: 12 }),
        (phase, restarts) => {
          const podPhase = phase === "Running" ? "Running" : phase;
          const world = { sandbox: sandbox({ phase }), pod: pod("old", podPhase) as Pod | undefined };
          let start: SandboxState["start"];
          let restoreInPlace: SandboxState["restoreInPlace"];
          for (const restarted of restarts) {
            // A restart loses only calls, which are made again and which cells join.
            if (restarted) start = restoreInPlace = undefined;
            const plan = planSandbox(stateOf({ ...world, start, restoreInPlace }));
            for (const action of plan.actions) {
              if (action.do === "deletePod") world.pod = undefined;
              if (action.do === "createPod") world.pod = pod("new");
              if (action.do === "restoreSandboxInPlace") restoreInPlace = answered;
              if (action.do === "startSandbox") {
                expect(action.pod.metadata.uid).toBe("new");
                start = answered;
              }
            }
            if (plan.status !== undefined) world.sandbox = { ...world.sandbox, status: plan.status };
          }
          const last = restarts.at(-1) === true && world.sandbox.status?.phase === "Resuming";
          const requestsAgain = restarts.at(-1) === true && isRollbackPending(world.sandbox);
          if (last || requestsAgain || restarts.filter((one) => !one).length < 6) return;
          expect(world.sandbox.status).toMatchObject({ phase: "Running", ramet: { restoredFrom: "c-1" } });
          expect(rolledBack(world.sandbox.status)).toMatchObject({ status: "True", reason: "Succeeded" });
        },
      ),
    );
  });

  it("is repeated for another request, and not for the same one", () => {
    const done = sandbox({ phase: "Running", ramet: { generation: 2, rollback: { request: digest } } });
    expect(isRollbackPending(done)).toBe(false);
    const requested = { ...done.metadata.annotations, [annotations.rollbackRequest]: "2" };
    expect(isRollbackPending({ ...done, metadata: { ...done.metadata, annotations: requested } })).toBe(true);
    expect(isRollbackPending(sandbox({ phase: "Running" }, { to: "" }))).toBe(false);
  });
});
