import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, expect, it } from "vitest";
import { parse } from "yaml";
import { runProgram } from "../../../src/cli/program.ts";
import { kinds } from "../../../src/api/kinds/crd.ts";
import { Checkpoint, type CheckpointStatus } from "../../../src/api/kinds/checkpoint.ts";
import { NamedSnapshot } from "../../../src/api/kinds/named-snapshot.ts";
import { SandboxClaim } from "../../../src/api/kinds/sandbox-claim.ts";
import { SandboxSet } from "../../../src/api/kinds/sandbox-set.ts";
import { Sandbox } from "../../../src/api/kinds/sandbox.ts";
import { version } from "../../../src/api/schema/kind.ts";
import type { Pod } from "../../../src/api/schema/pod.ts";
import { setRevision } from "../../../src/api/set/set-revision.ts";
import { problemOf } from "../../../src/api/state/problem.ts";
import { RametError } from "../../../src/base/errors.ts";
import { planCheckpoint } from "../../../src/controllers/checkpoint/plan.ts";
import type { CheckpointState } from "../../../src/controllers/checkpoint/state.ts";
import { notReady as notCloneable } from "../../../src/controllers/checkpoint/status.ts";
import { fail } from "../../../src/controllers/named-snapshot/build-under-way.ts";
import { planSnapshot } from "../../../src/controllers/named-snapshot/plan.ts";
import type { SnapshotState } from "../../../src/controllers/named-snapshot/state.ts";
import { type Building, withStatus } from "../../../src/controllers/named-snapshot/status.ts";
import { planClaim } from "../../../src/controllers/sandbox-claim/plan.ts";
import type { ClaimState } from "../../../src/controllers/sandbox-claim/state.ts";
import { planSet } from "../../../src/controllers/sandbox-set/plan.ts";
import { type SetState, memberOf } from "../../../src/controllers/sandbox-set/state.ts";
import { planPaused } from "../../../src/controllers/sandbox/plan-paused.ts";
import { planRunning } from "../../../src/controllers/sandbox/plan-running.ts";
import { planStart } from "../../../src/controllers/sandbox/plan-start.ts";
import type { SandboxState } from "../../../src/controllers/sandbox/state.ts";
import { ended, failed, lost, notReady, running } from "../../../src/controllers/sandbox/status.ts";
import { report } from "../../../src/kube/conditions.ts";
import { acquirePinned } from "../../../src/local/tools/acquire-tools.ts";
import { memoryIo } from "../../setup/memory-io.ts";
import { pinnedTestTool } from "../../setup/pinned-tools.ts";

/**
 * The objects have the statuses that the controllers plan. Kubectl, Flux and kpt wait for Current, and give up at Failed. An object without
 * a status is Current for kstatus: it does not know yet that the kind has conditions.
 */
const now = new Date("2030-01-01T01:00:00Z");
const metadata = {
  name: "a",
  namespace: "t",
  uid: "u",
  resourceVersion: "1",
  creationTimestamp: "2030-01-01T00:00:00Z",
  generation: 1,
  finalizers: ["ramet.dev/named-snapshot"],
};
const apiVersion = "agents.kruise.io/v1alpha1";
const error = new RametError("NotFound", "It does not exist", { hint: "Create it" });
const building = new RametError("CheckpointNotReady", "The snapshot has no version yet");
const template = { spec: { containers: [{ name: "main", image: "python" }] } };

function checkpoint(more: Partial<CheckpointState>, phase?: string): object {
  const object = Checkpoint.parse({
    apiVersion,
    kind: "Checkpoint",
    metadata,
    spec: { podName: "a" },
    ...(phase && { status: { phase } }),
  });
  const spec = { sandboxName: "a", keepRunning: true, contents: ["memory", "filesystem"], ttlMilliseconds: undefined };
  const state = {
    checkpoint: object,
    checkpointId: "c-1",
    spec,
    source: { problem: error },
    secrets: [],
    volumes: [],
    quota: {},
    now,
    ...more,
  };
  return { ...object, status: planCheckpoint(state as unknown as CheckpointState).status };
}

const record = { parts: [], phases: {} } as never;

function sandbox(plan: (state: SandboxState) => object | undefined, spec: object = {}, status?: object): object {
  const object = Sandbox.parse({ apiVersion, kind: "Sandbox", metadata, spec, ...(status && { status }) });
  const state = {
    sandbox: object,
    origin: { kind: "new" },
    template: { template, volumeClaims: [] },
    lostClaims: [],
    orphans: [],
    volumes: { claims: new Map(), shared: [] },
    egress: { policy: {} },
    credentials: {},
    cpus: { lacking: [], missing: [] },
    slowInMilliseconds: 0,
    now,
  };
  return { ...object, status: plan(state as unknown as SandboxState) };
}

const pod = (status: object) => ({ metadata, spec: template.spec, status }) as unknown as Pod;
const unpulled = pod({
  phase: "Pending",
  containerStatuses: [{ name: "main", state: { waiting: { reason: "ImagePullBackOff", message: "no such image" } } }],
});
const condition = (type: string, status: string, reason: string) => ({
  type,
  status,
  reason,
  message: "m",
  lastTransitionTime: metadata.creationTimestamp,
});

function set(more: Partial<SetState>): object {
  const object = SandboxSet.parse({ apiVersion, kind: "SandboxSet", metadata, spec: { replicas: 1, template } });
  const state = {
    set: object,
    revision: setRevision(object, undefined, (id) => id),
    sameContent: new Set(),
    bounds: { scale: 1, update: 1 },
    members: [],
    unseen: [],
    templates: [],
    ignored: [],
    backoff: { inARow: 0, waitMilliseconds: 0, message: "", isConclusive: false },
    now,
    ...more,
  };
  return { ...object, status: planSet(state as unknown as SetState).status };
}

const available = memberOf(
  Sandbox.parse({
    apiVersion,
    kind: "Sandbox",
    metadata,
    spec: {},
    status: { phase: "Running", conditions: [condition("Ready", "True", "PodReady")] },
  }),
  false,
);

function claim(more: Partial<ClaimState>): object {
  const object = SandboxClaim.parse({ apiVersion, kind: "SandboxClaim", metadata, spec: { templateName: "s" } });
  const state = {
    claim: object,
    members: [],
    underWay: [],
    used: new Set(),
    pauseMilliseconds: 0,
    slowInMilliseconds: 0,
    startedAt: now,
    now,
    ...more,
  };
  return { ...object, status: planClaim(state as unknown as ClaimState).status };
}

const missingSet = { reason: "SandboxSetNotFound", why: problemOf(error), message: "no set" };
const digest = `sha256:${"0".repeat(64)}`;
const built = { version: 1, digest, checkpointId: "c", checkpointName: "c", createdAt: metadata.creationTimestamp };
const versions = { version: 1, versions: [built] };
const underWay = { digest, startedAt: metadata.creationTimestamp, attempt: 1 };
const upgrade = { ...underWay, upgrade: { of: 1, cellImage: "cell:2" } };

function snapshotState(spec: object, desired: unknown): SnapshotState {
  const object = NamedSnapshot.parse({
    apiVersion: "ramet.dev/v1alpha1",
    kind: "NamedSnapshot",
    metadata,
    spec: { from: { template: { name: "python" } }, ...spec },
  });
  const engines = { cellImage: "cell:1", earlier: new Set(), source: "current" };
  const state = {
    snapshot: object,
    desired,
    engines,
    cloneable: new Map(),
    captured: new Map(),
    referrers: new Map(),
    orphans: [],
    made: [],
    followers: [],
    ignored: [],
    now,
  };
  return state as unknown as SnapshotState;
}

const desired = { digest: { digest, base: digest, steps: [] }, requeueAfterMilliseconds: 1 };

function snapshot(status: object, how: Building): object {
  const state = snapshotState({}, desired);
  return { ...state.snapshot, status: withStatus(state, status, how) };
}

function planned(spec: object, wanted: unknown = desired): object {
  const state = snapshotState(spec, wanted);
  return { ...state.snapshot, status: planSnapshot(state).status };
}

function failedBuild(status: object): object {
  const state = snapshotState({}, desired);
  const { build = underWay } = status as { build?: typeof underWay };
  const failure = { reason: "StepFailed", message: "m", problem: { code: "StepFailed", cause: "m" } } as const;
  return { ...state.snapshot, status: fail({ state, build, status, desired } as never, failure).status };
}

const running1: Building = { status: "True", reason: "RunningStep", message: "Step 1 of 2" };
const done: Building = { status: "False", reason: "Built", message: "" };

const states: [string, object, "Current" | "InProgress" | "Failed"][] = [
  ["a Checkpoint that is captured", capturing(), "InProgress"],
  ["a Checkpoint that succeeded", checkpoint({ capture: { state: "done", value: record } }), "Current"],
  ["a Checkpoint that failed", checkpoint({}), "Failed"],
  ["a Checkpoint that exceeds its quota", checkpoint({ source: {} as never, quota: { problem: error } }), "Failed"],
  ["a Checkpoint whose data is missing", checkpoint({ finding: { state: "missing" } }, "Succeeded"), "Failed"],
  ["a Sandbox that waits for its Pod", sandbox((state) => notReady(state, "PodStarting", "m")), "InProgress"],
  ["a Sandbox that waits for a snapshot", start({ template: { problem: building } }), "InProgress"],
  ["a Sandbox whose template is missing", start({ template: { problem: error } }), "Failed"],
  ["a Sandbox whose image cannot be pulled", start({ pod: unpulled }), "Failed"],
  ["a Sandbox whose name another Pod has", start({ foreignPod: pod({}) }), "Failed"],
  ["a Sandbox that runs", sandbox((state) => running(state, pod({}), { phases: {} })), "Current"],
  ["a Sandbox that is ready again", again(), "Current"],
  ["a Sandbox that is being paused", paused({}, "False", { pod: pod({}) }), "InProgress"],
  ["a paused Sandbox", paused({ paused: true }, "False"), "Current"],
  ["a Sandbox that stays paused", paused({ paused: true }, "True"), "Current"],
  ["a Sandbox that is being resumed", paused({ paused: false }, "True"), "InProgress"],
  ["a Sandbox that failed", sandbox((state) => failed(state, error)), "Failed"],
  ["a Sandbox whose Pod was deleted", sandbox(lost), "Failed"],
  ["a Sandbox that has ended", sandbox((state) => ended(state, pod({ phase: "Succeeded" }))), "Failed"],
  ["a SandboxSet that starts sandboxes", set({}), "InProgress"],
  ["a full SandboxSet", set({ members: [available] }), "Current"],
  ["a SandboxSet whose snapshot is being built", set({ revision: { problem: building } }), "InProgress"],
  ["a SandboxSet whose template is missing", set({ revision: { problem: error } }), "Failed"],
  ["a SandboxSet whose sandboxes fail", failing(), "Failed"],
  ["a SandboxClaim that waits", claim({}), "InProgress"],
  [
    "a SandboxClaim that has all",
    claim({ members: [{ sandbox: available.sandbox, progress: { is: "ready" } }] }),
    "Current",
  ],
  ["a SandboxClaim of a set that does not exist", claim({ problem: missingSet }), "Failed"],
  ["a SandboxClaim that timed out", claim({ startedAt: new Date(0) }), "Failed"],
  ["a NamedSnapshot that is being built", snapshot({ build: underWay }, running1), "InProgress"],
  [
    "a NamedSnapshot whose next version is being built",
    snapshot({ ...versions, build: underWay }, running1),
    "InProgress",
  ],
  ["a NamedSnapshot that is built", snapshot({ ...versions, build: underWay }, done), "Current"],
  ["a NamedSnapshot that is upgraded", snapshot({ ...versions, build: upgrade }, running1), "Current"],
  ["a NamedSnapshot whose upgrade failed", failedBuild({ ...versions, build: upgrade }), "Current"],
  ["a NamedSnapshot whose build failed", failedBuild({}), "Failed"],
  ["a NamedSnapshot whose next build failed", failedBuild(versions), "Failed"],
  ["a NamedSnapshot whose template is missing", planned({}, { problem: error, reason: "InputMissing" }), "Failed"],
  [
    "a NamedSnapshot whose source is being built",
    planned({}, { problem: building, reason: "InputMissing" }),
    "InProgress",
  ],
  ["a NamedSnapshot that is pinned to a lost version", planned({ pinnedVersion: 7 }), "Failed"],
  ["a suspended NamedSnapshot without a version", planned({ suspend: true }), "Failed"],
];

function capturing(): object {
  const object = Checkpoint.parse({ apiVersion, kind: "Checkpoint", metadata, spec: { podName: "a" } });
  const creating: CheckpointStatus = { phase: "Creating" };
  return { ...object, status: report(creating, [notCloneable("Creating")], { now }) };
}

function start(more: Partial<SandboxState>): object {
  return sandbox((state) => planStart({ ...state, ...more }).status);
}

function paused(spec: object, status: "True" | "False", more: Partial<SandboxState> = {}): object {
  const conditions = [condition("SandboxPaused", status, "StopPauseSucceed"), condition("Ready", "False", "R")];
  const before = { phase: "Paused", conditions: status === "True" ? conditions.slice(0, 1) : conditions };
  return sandbox((state) => planPaused({ ...state, ...more }).status ?? before, spec, before);
}

/** It was not ready for a moment. */
function again(): object {
  const before = { phase: "Running", podInfo: { podUID: "u" }, conditions: [condition("Ready", "False", "R")] };
  const own = pod({ phase: "Running", conditions: [condition("Ready", "True", "R")] });
  return sandbox((state) => planRunning({ ...state, pod: own }).status, {}, before);
}

function failing(): object {
  const cause = { message: "m", problem: undefined, isConclusive: false };
  const backoff = { inARow: 3, waitMilliseconds: 5, nextAt: now, lastAt: now, ...cause };
  return set({ backoff });
}

let reports: { kstatus: string; argo: string; message: string; flux: string; kro: boolean }[] = [];

beforeAll(async () => {
  const objects = states.map(([, object]) => observed(object));
  const { kstatus } = await acquirePinned(pinnedTestTool, { names: ["kstatus"] });
  const running = promisify(execFile)(kstatus);
  running.child.stdin?.end(JSON.stringify({ objects, script: await argoScript(), ...(await expressions()) }));
  reports = JSON.parse((await running).stdout) as typeof reports;
});

/** The health check that users copy from the documentation. */
async function argoScript(): Promise<string> {
  const page = await readFile(join(import.meta.dirname, "../../../docs/tasks/gitops.md"), "utf8");
  const [, configMap = ""] = /## Argo CD[^]*?```yaml\n([^]*?)```/.exec(page) ?? [];
  const { data } = parse(configMap) as { data: { "resource.customizations": string } };
  const checks = parse(data["resource.customizations"]) as Record<string, { "health.lua": string }>;
  const kinds = Object.keys(checks).map((key) => key.split("/")[1]);
  expect(kinds.sort()).toEqual(["Checkpoint", "NamedSnapshot", "Sandbox", "SandboxClaim", "SandboxSet"]);
  return checks["ramet.dev/NamedSnapshot"]?.["health.lua"] ?? "";
}

/** The expressions that users copy from the documentation. */
async function expressions() {
  const [flux, kro] = [await block("Flux", "healthCheckExprs"), await block("kro", "readyWhen")];
  const { healthCheckExprs } = flux as { healthCheckExprs: { failed: string; current: string }[] };
  const { readyWhen } = kro as { readyWhen: string[] };
  return { ...healthCheckExprs[0], readyWhen: readyWhen.map((text) => /^\$\{([^]*)\}$/.exec(text)?.[1] ?? "") };
}

async function block(section: string, key: string): Promise<unknown> {
  const page = await readFile(join(import.meta.dirname, "../../../docs/tasks/gitops.md"), "utf8");
  const [, text = ""] = new RegExp(`## ${section}[^]*?\n\`\`\`yaml\n(${key}:[^]*?)\`\`\``).exec(page) ?? [];
  return parse(text);
}

it("has views and plugins of k9s for kinds, columns and commands that exist", async () => {
  const { views, plugins } = (await block("kro", "views")) as {
    views: Record<string, { columns: string[]; sortColumn?: string }>;
    plugins: Record<string, { scopes: string[]; args: string[] }>;
  };
  const byKind = new Map(kinds.map((one) => [`${one.group}/${version}/${one.plural}`, one]));
  for (const [name, { columns, sortColumn = "NAME:asc" }] of Object.entries(views)) {
    const known = ["NAME", ...(byKind.get(name)?.columns ?? []).map((column) => column.name.toUpperCase())];
    expect(known, name).toEqual(expect.arrayContaining([...columns, sortColumn.split(":")[0]]));
  }
  for (const { scopes, args } of Object.values(plugins)) {
    expect(kinds.map(({ plural }) => plural)).toEqual(expect.arrayContaining(scopes));
    expect(await runProgram(memoryIo(), [...args.slice(0, 2), "--help"])).toBe(0);
  }
});

/** As the status writer writes it. */
function observed(object: object): object {
  return { ...object, status: { ...(object as { status: object }).status, observedGeneration: metadata.generation } };
}

const healthOf = { Current: "Healthy", InProgress: "Progressing", Failed: "Degraded" };

it.each(states.map(([name, object, expected], index) => ({ name, object, expected, index })))(
  "kstatus reports $name as $expected, and Argo CD, Flux and kro report the same",
  ({ object, expected, index }) => {
    const { kstatus, argo, message, flux, kro } = reports[index] ?? {};
    expect([flux, kro], JSON.stringify(object)).toEqual([expected, expected === "Current"]);
    expect(kstatus, JSON.stringify(object)).toBe(expected);
    const isPaused = expected === "Current" && (object as Sandbox).status?.phase === "Paused";
    expect(argo, JSON.stringify(object)).toBe(isPaused ? "Suspended" : healthOf[expected]);
    if (expected === "Failed") expect(message).not.toBe("");
  },
);
