import { expect, it } from "vitest";
import { Sandbox } from "../../api/kinds/sandbox.ts";
import { parsePodTemplate } from "../../api/schema/pod-template.ts";
import { Pod } from "../../api/schema/pod.ts";
import { annotations } from "../../api/names/labels.ts";
import { rollbackRequest } from "../../api/names/rollback-request.ts";
import { type ErrorCode } from "../../base/error-codes.ts";
import { RametError } from "../../base/errors.ts";
import { anyNode } from "../nodes/plan-cpus.ts";
import { planSandbox } from "./plan.ts";
import { planStart } from "./plan-start.ts";
import { gatherRollback, rollbackUnderWay } from "./rollback.ts";
import type { SandboxDependencies } from "./dependencies.ts";
import type { SandboxState } from "./state.ts";

const startedAt = new Date("2030-01-01T00:00:00Z");
const meta = (name: string) => ({
  name,
  namespace: "t",
  uid: `uid-${name}`,
  resourceVersion: "1",
  creationTimestamp: startedAt.toISOString(),
});
const words = "restoring checkpoint c failed: its memory needs another image";
const refused = (code: ErrorCode): SandboxState["start"] => ({ state: "failed", error: new RametError(code, words) });
const pod = (status: object = { phase: "Running", podIP: "127.0.0.1" }, metadata: object = {}) =>
  Pod.parse({
    metadata: { ...meta("a"), ...metadata },
    spec: { containers: [{ name: "main", image: "cell" }] },
    status,
  });
const template = parsePodTemplate({ spec: { containers: [{ name: "main", image: "python", command: ["run"] }] } });

const held = {
  type: "SandboxPaused",
  status: "True",
  reason: "SnapshotPauseSucceed",
  message: "",
  lastTransitionTime: startedAt.toISOString(),
};

interface Resume {
  start?: SandboxState["start"];
  pod: Pod | undefined;
  seconds?: number;
  status?: object;
  /** Of the Sandbox. */
  parts?: { spec?: object; metadata?: object };
  origin?: SandboxState["origin"];
}

function resume({ start, pod: its, seconds = 1, status, parts, origin }: Resume): SandboxState {
  const sandbox = Sandbox.parse({
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "Sandbox",
    metadata: { ...meta("a"), finalizers: ["agents.kruise.io/sandbox"], ...parts?.metadata },
    spec: parts?.spec ?? {},
    status: { phase: "Resuming", conditions: [held], ...status },
  });
  return {
    sandbox,
    start,
    pod: its,
    template: { template, borrowed: false, contents: {}, pauseStrategy: undefined, volumeClaims: [] },
    origin: origin ?? { kind: "checkpoint", source: { name: { namespace: "t", checkpointId: "c" }, parts: [] } },
    cpus: anyNode,
    lostClaims: [],
    orphans: [],
    ignored: [],
    egress: { policy: {}, digest: "" },
    credentials: { credentials: undefined, digest: "" },
    image: { state: "unresolved" },
    volumes: { claims: new Map() },
    slowInMilliseconds: 0,
    now: new Date(startedAt.getTime() + seconds * 1_000),
  } as unknown as SandboxState;
}

it("waits with a resume whose image was replaced under its name, and tries another Pod later", () => {
  const refusal = refused("ImageReplaced");
  const waiting = planStart(resume({ start: refusal, pod: pod() }));
  expect(waiting).toMatchObject({ actions: [], requeueAfterMilliseconds: 14_000, status: { phase: "Resuming" } });
  expect(waiting.status?.conditions).toContainEqual(
    expect.objectContaining({ type: "Stalled", status: "True", reason: "ImageReplaced" }),
  );
  const due = planStart(resume({ start: refusal, pod: pod(), seconds: 15 }));
  expect(due).toMatchObject({ actions: [{ do: "deletePod" }], status: { phase: "Resuming" } });
  const { status } = waiting;
  const deleting = pod({ phase: "Failed" }, { deletionTimestamp: startedAt.toISOString() });
  expect(planStart(resume({ pod: deleting, status: status ?? {} }))).toEqual({ actions: [] });
  expect(planStart(resume({ pod: undefined, status: status ?? {} })).actions).toMatchObject([{ do: "createPod" }]);
});

it("finds the refusal in the ended Pod if its answer was lost, or the process that received it has ended", () => {
  const message = JSON.stringify({ code: "ImageReplaced", message: words, retryable: false });
  const ended = (text: string) =>
    pod({
      phase: "Failed",
      containerStatuses: [{ name: "main", state: { terminated: { exitCode: 1, message: text } } }],
    });
  const lastError = new RametError("Unavailable", "the connection was reset", { retryable: true });
  const starts: SandboxState["start"][] = [
    undefined,
    { state: "running", failures: 1, lastError },
    refused("Unavailable"),
  ];
  for (const start of starts) {
    const waiting = planStart(resume({ start, pod: ended(message) }));
    expect(waiting).toMatchObject({ actions: [], status: { phase: "Resuming" }, requeueAfterMilliseconds: 14_000 });
    expect(planStart(resume({ start, pod: ended("killed") })).status?.phase).toBe("Failed");
  }
});

it("fails a resume that the cell refuses for another reason, and a start that is no resume", () => {
  expect(planStart(resume({ start: refused("NeedNotMet"), pod: pod() })).status?.phase).toBe("Failed");
  const status = { phase: "Pending" };
  expect(planStart(resume({ start: refused("ImageReplaced"), pod: pod(), status })).status?.phase).toBe("Failed");
});

it("waits twice as long for the image with each Pod, but not longer than ten minutes", () => {
  const start = refused("ImageReplaced");
  let status: object = planStart(resume({ start, pod: pod(), seconds: 0 })).status!;
  const waits: number[] = [];
  let seconds = 0;
  for (let round = 0; round < 9; round++) {
    const creationTimestamp = new Date(startedAt.getTime() + seconds * 1_000).toISOString();
    const plan = planStart(resume({ start, pod: pod(undefined, { creationTimestamp }), seconds, status }));
    const wait = plan.requeueAfterMilliseconds! / 1_000;
    // A wait writes no status.
    expect(plan.status).toEqual({ phase: "Resuming", ...status });
    waits.push(wait);
    seconds += wait;
    const due = planStart(resume({ start, pod: pod(undefined, { creationTimestamp }), seconds, status }));
    expect(due.actions).toMatchObject([{ do: "deletePod" }]);
    status = due.status!;
  }
  expect(waits).toEqual([15, 15, 30, 60, 120, 240, 480, 600, 600]);
});

it("pauses a resume that waits for its image again, with the checkpoint of its pause", () => {
  const start = refused("ImageReplaced");
  const parts = { spec: { paused: true } };
  const status = planStart(resume({ start, pod: pod() })).status!;
  const deleting = pod({ phase: "Failed" }, { deletionTimestamp: startedAt.toISOString() });
  for (const [its, actions] of [
    [pod(), [{ do: "deletePod" }]],
    [deleting, []],
    // The status was not written after the deletion.
    [undefined, []],
  ] as const) {
    const plan = planSandbox(resume({ start: its && start, pod: its, status, parts }));
    expect(plan).toMatchObject({ actions, status: { phase: "Paused" } });
    expect(plan.status?.conditions).toEqual([held]);
  }
  // The image may be back in a Pod that starts, and then the sandbox has run.
  const starting = planSandbox(resume({ start: { state: "running", failures: 0 }, pod: pod(), status, parts }));
  expect(starting).toMatchObject({ actions: [] });
  expect(starting.status).toBeUndefined();
});

it("pauses a resume that waits for its template again", () => {
  const origin = { kind: "impossible", error: new RametError("TemplateMismatch", "args differ") } as const;
  const plan = planSandbox(resume({ pod: undefined, origin, parts: { spec: { paused: true } } }));
  expect(plan).toMatchObject({ actions: [], status: { phase: "Paused", conditions: [held] } });
});

it("rolls back a resume that waits for its image", () => {
  const start = refused("ImageReplaced");
  const status = planStart(resume({ start, pod: pod() })).status!;
  const state = resume({
    start,
    pod: pod(),
    status,
    parts: { metadata: { annotations: { [annotations.rollbackTo]: "c" } } },
  });
  const request = rollbackRequest(state.sandbox)!;
  const plan = planSandbox({ ...state, rollback: { request, origin: state.origin, needsNewPod: false } });
  expect(plan).toMatchObject({ actions: [], status: { phase: "Resuming" } });
  const next = { ...state.sandbox, status: plan.status! };
  expect(rollbackUnderWay(next)).toEqual({ request: request.digest, checkpointId: "c", replacedPodUid: "uid-a" });
  expect(planSandbox({ ...state, sandbox: next }).actions).toMatchObject([{ do: "deletePod" }]);
});

it("looks up a rollback of a resume only while it waits for its image", async () => {
  const withoutCheckpoints = {
    cache: { checkpointById: () => undefined },
    informers: {},
  } as unknown as SandboxDependencies;
  const metadata = { annotations: { [annotations.rollbackTo]: "No Name@1" } };
  const status = planStart(resume({ start: refused("ImageReplaced"), pod: pod() })).status!;
  const found = (state: SandboxState) => gatherRollback(state.sandbox, state, withoutCheckpoints);
  expect(await found(resume({ pod: undefined, parts: { metadata } }))).toBeUndefined();
  expect(await found(resume({ pod: undefined, status, parts: { metadata } }))).toMatchObject({
    origin: { kind: "impossible", error: { code: "InvalidArgument" } },
  });
});

it("ends a move if its user pauses it meanwhile, so that a later resume is none", () => {
  const disruption = { cause: "Evicted", at: startedAt.toISOString(), outcome: "Migrating", podUID: "old" };
  const noTarget = { cause: "Evicted", at: startedAt.toISOString(), message: "none" };
  const status = { phase: "Paused", ramet: { disruption, noTarget, generation: 1 } };
  const planned = planSandbox(resume({ pod: undefined, status, parts: { spec: { paused: true } } }));
  expect(planned.status?.ramet).toEqual({ disruption: { ...disruption, outcome: "Paused" }, generation: 1 });
});

it("creates another Pod if the node stopped responding before it had run what is restored", () => {
  const source = { name: { namespace: "t", checkpointId: "c" }, parts: [{ contents: ["memory", "filesystem"] }] };
  const origin = { kind: "checkpoint", source } as unknown as SandboxState["origin"];
  const scheduled = (parts: { status?: object; metadata?: object } = {}) =>
    pod({ phase: "Pending", ...parts.status }, { uid: "next", ...parts.metadata });
  const planFor = (its: Pod, more: Partial<SandboxState> = {}) =>
    planStart({ ...resume({ pod: its, origin }), isNodeSilent: true, ...more }).actions;
  const replaced = [{ do: "deletePod", isUnused: true }];
  expect(planFor(scheduled())).toMatchObject(replaced);
  expect(planFor(scheduled({ metadata: { deletionTimestamp: startedAt.toISOString() } }))).toMatchObject(replaced);
  expect(planFor(scheduled(), { isNodeSilent: false })).toEqual([]);
  // Something may run there.
  const cell = { podUID: "next", podIP: "10.0.0.1", cellKey: "k" };
  expect(planFor(scheduled(), { startingCell: cell })).toEqual([]);
  expect(planFor(scheduled({ status: { podIP: "10.0.0.1" } }))).toEqual([]);
  expect(planFor(scheduled(), { origin: { kind: "new" } })).toEqual([]);
  const recorded = resume({ pod: scheduled(), origin, status: { ramet: { startingPod: cell } } });
  expect(planStart({ ...recorded, isNodeSilent: true }).actions).toEqual([]);
});

it("waits for its turn to be restored", () => {
  const source = { name: { namespace: "t", checkpointId: "c" }, parts: [{ contents: ["memory", "filesystem"] }] };
  const origin = { kind: "checkpoint", source } as unknown as SandboxState["origin"];
  const planFor = (turn: "now" | "later") => planStart({ ...resume({ pod: pod(), origin }), departure: { turn } });
  expect(planFor("later")).toMatchObject({ actions: [], requeueAfterMilliseconds: 5_000 });
  expect(planFor("now").actions).toMatchObject([{ do: "startSandbox" }]);
});

it("asks about a sandbox that its cell has got, although others end its Pod, so that it is captured and not started again", () => {
  const annotated = { annotations: { [annotations.onDisruption]: "Migrate" } };
  const ending = { uid: "next", deletionTimestamp: startedAt.toISOString(), ...annotated };
  const its = (status?: object) => pod(status, ending);
  const cell = { podUID: "next", podIP: "127.0.0.1", cellKey: "k" };
  const given = { status: { ramet: { startingPod: cell } } };
  const source = { name: { namespace: "t", checkpointId: "c" }, parts: [{ contents: ["memory", "filesystem"] }] };
  const origin = { kind: "checkpoint", source } as unknown as SandboxState["origin"];
  const planFor = (parts: Partial<Resume>) => planStart(resume({ pod: its(), origin, ...given, ...parts }));
  // Another process led when it was given.
  expect(planFor({}).actions).toMatchObject([{ do: "startSandbox" }]);
  const done = { state: "done", value: { generation: 2, phases: {} } } as SandboxState["start"];
  expect(planFor({ start: done })).toMatchObject({ actions: [], status: { phase: "Running" } });
  const intended = [{ do: "intendEnd" }];
  expect(planFor({ start: refused("EngineFailed") }).actions).toMatchObject(intended);
  expect(planFor({ status: {} }).actions).toMatchObject(intended);
  expect(planFor({ pod: its({ phase: "Failed" }) }).actions).toEqual([]);
  const ends = { ...ending, annotations: { [annotations.onDisruption]: "End" } };
  expect(planFor({ pod: pod(undefined, ends) }).actions).toEqual([]);
});
