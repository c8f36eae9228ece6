import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import type { NamedSnapshotStatus, SnapshotBuild } from "../../api/kinds/named-snapshot-status.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { annotations } from "../../api/names/labels.ts";
import { isRollbackPending } from "../../api/names/rollback-request.ts";
import type { ObjectName, Problem } from "../../api/schema/problem.ts";
import type { SnapshotDigest } from "../../api/snapshot/snapshot-digest.ts";
import { hasFailed, isCloneable } from "../../api/state/checkpoint.ts";
import { buildFailures, repeatedNumbers } from "../../api/state/named-snapshot.ts";
import { reportedBy, within } from "../../api/state/problem.ts";
import { isServing } from "../../api/state/sandbox.ts";
import { defined } from "../../base/defined.ts";
import { findCondition, reportedProblem } from "../../kube/conditions.ts";
import type { Transition } from "../../kube/events.ts";
import {
  type BuildUnderWay,
  type BuilderEnd,
  captureFailed,
  entrypointEnded,
  fail,
  hasSteps,
  lost,
  starting,
  waiting,
  whereIn,
} from "./build-under-way.ts";
import { builderName, sourceCheckpointName, versionCheckpointName } from "./names.ts";
import { baseSteps, bootOnLayer, lackedOnLayer, layerSteps, planSteps } from "./plan-steps.ts";
import { currentVersion, keptVersions, planRetention, removeBuilders, replacedBy } from "./plan-versions.ts";
import type { BuildOrigin, BuilderBase, DesiredVersion, SnapshotAction, SnapshotPlan, SnapshotState } from "./state.ts";
import { type Building, freshSteps, measured, pointer, progressOf, withStatus } from "./status.ts";

/**
 * Builds a version of the desired digest, which is not kept or has an earlier engine. The current version stays current
 * meanwhile.
 */
export function planBuild(
  state: SnapshotState,
  desired: DesiredVersion,
  upgrade?: NonNullable<SnapshotBuild["upgrade"]>,
): SnapshotPlan {
  const { snapshot } = state;
  const build = snapshot.status?.build;
  const request = snapshot.metadata.annotations?.[annotations.buildRequest];
  if (build === undefined || isOutdated(state, build, { ...desired.digest, request, upgrade }))
    return startBuild(state, desired, { request, upgrade });
  const current = currentVersion(state);
  // A request for a build while one is running refers to the running one.
  const joined = request === undefined ? build : { ...build, request };
  const status = pointer({ ...snapshot.status, build: joined, versions: keptVersions(state) }, current);
  const underWay = { state, desired, build: joined, status };
  const plan = joined.failure === undefined ? continueBuild(underWay) : stayFailed(underWay, joined.failure);
  return {
    ...plan,
    actions: [...removeBuilders({ ...state, builder: undefined }), ...planRetention(state, current), ...plan.actions],
  };
}

type Requested = Pick<SnapshotBuild, "request" | "upgrade">;

function isOutdated(
  state: SnapshotState,
  build: SnapshotBuild,
  { digest, steps, request, upgrade }: Requested & Pick<SnapshotDigest, "digest" | "steps">,
): boolean {
  if (build.digest !== digest) return true;
  if (build.upgrade?.of !== upgrade?.of || build.upgrade?.cellImage !== upgrade?.cellImage) return true;
  // An earlier release, which made no layers by default, began it.
  if (build.endedAt === undefined) return !hasSteps(state, steps);
  // A build that succeeded is missing from the kept versions if its Checkpoint was deleted.
  if (build.failure === undefined || build.request !== request) return true;
  return upgrade !== undefined && untilRepeat(build, state.now) <= 0;
}

/** Nobody waits for an upgrade, so one that failed for a reason outside of the recipe is repeated. */
function untilRepeat({ endedAt = "", failure }: SnapshotBuild, now: Date): number {
  if (failure === undefined || failure.reason === "StepFailed") return Number.POSITIVE_INFINITY;
  return Date.parse(endedAt) + repeatMilliseconds - now.getTime();
}

const repeatMilliseconds = 3_600_000;

function startBuild(state: SnapshotState, desired: DesiredVersion, { request, upgrade }: Requested): SnapshotPlan {
  const { snapshot, now } = state;
  const before = snapshot.status?.build;
  const wasKept = keptVersions(state).some(({ digest }) => digest === before?.digest);
  const steps = freshSteps(state, desired, 0);
  const build: SnapshotBuild = {
    digest: desired.digest.digest,
    startedAt: now.toISOString(),
    attempt: 1,
    ...defined({ request, upgrade }),
  };
  const version = nextVersion(snapshot.status ?? {});
  const what =
    upgrade === undefined
      ? `Building version ${version}`
      : `Capturing version ${upgrade.of} again as version ${version}`;
  const changes = { ...snapshot.status, versions: keptVersions(state), build, steps, progress: progressOf(steps) };
  return {
    actions: [
      ...removeBuilders(state),
      ...(before === undefined || wasKept ? [] : [{ do: "deleteLog", digest: before.digest } as const]),
    ],
    status: withStatus(state, pointer(changes, currentVersion(state)), starting("Starting a build")),
    transitions: [
      {
        type: "Normal",
        reason: "BuildStarted",
        action: "Build",
        note: `${what} with the digest ${desired.digest.digest}`,
      },
    ],
  };
}

/** A failed recipe is not retried until it changes or a build is requested: it would fail again. */
function stayFailed(
  underWay: BuildUnderWay,
  { reason, message, problem }: NonNullable<SnapshotBuild["failure"]>,
): SnapshotPlan {
  const { state } = underWay;
  const keeps = state.snapshot.metadata.annotations?.[annotations.keepBuilder] === "true";
  const isRepeated = underWay.build.upgrade !== undefined && reason !== "StepFailed";
  return {
    actions: keeps ? [] : removeBuilders({ ...state, orphans: [] }),
    status: withStatus(state, underWay.status, { status: "False", reason: knownReason(reason), message, problem }),
    ...(isRepeated && { requeueAfterMilliseconds: repeatMilliseconds }),
  };
}

function continueBuild(underWay: BuildUnderWay): SnapshotPlan {
  const { builder } = underWay.state;
  const versionCheckpoint = versionCheckpointOf(underWay);
  if (versionCheckpoint !== undefined) return planCapture(underWay, versionCheckpoint);
  const origin = originOf(underWay);
  if ("plan" in origin) return origin.plan;
  if (builder !== undefined) return planBuilder(underWay, builder);
  return underWay.build.builderUid === undefined
    ? create(underWay, origin)
    : lost(underWay, { what: `no longer exists${whereIn(underWay.status)}` });
}

/** An upgrade has a Checkpoint with its own name, as that of the version that it replaces still exists. */
function versionCheckpointOf({ state, build }: BuildUnderWay): Checkpoint | undefined {
  if (build.upgrade === undefined) return state.versionCheckpoint;
  const name = versionCheckpointName(state.snapshot.metadata.name, build.digest, build.upgrade.of);
  return state.made.find(({ metadata }) => metadata.name === name);
}

function planBuilder(underWay: BuildUnderWay, builder: Sandbox): SnapshotPlan {
  const { metadata, status } = builder;
  const unpulled = imageProblemOf(builder);
  if (unpulled !== undefined) return fail(underWay, { reason: "BuilderFailed", problem: unpulled });
  const end = endOf(builder, whereIn(underWay.status));
  if (end !== undefined) return lost(underWay, end);
  if (!isServing(builder) || isRollbackPending(builder)) {
    const message = `Waiting for the sandbox ${metadata.name}: ${status?.message ?? "it is starting"}`;
    return waiting(underWay, starting(message, metadata.name));
  }
  if (underWay.build.builderUid === metadata.uid) return planSteps(underWay, builder);
  return bootOnLayer(underWay, builder) ?? adopt(underWay, builder);
}

/** Another attempt would wait for the same image. The Sandbox has tried until the pull timeout. */
function imageProblemOf({ metadata, status }: Sandbox): Problem | undefined {
  if (status?.phase !== "Failed" || metadata.deletionTimestamp !== undefined) return undefined;
  const ready = findCondition(status.conditions, "Ready");
  if (ready === undefined || !imageReasons.has(ready.reason)) return undefined;
  return within(reportedBy(status, ready), `The build sandbox ${metadata.name} has no image`);
}

const imageReasons = new Set(["ImageNotFound", "Unauthorized"]);

function endOf({ metadata, status }: Sandbox, where: string): BuilderEnd | undefined {
  if (metadata.deletionTimestamp !== undefined) return { what: `was deleted${where}` };
  const { phase = "Pending", message = "" } = status ?? {};
  if (phase === "Succeeded") return { what: `ended${where}`, because: entrypointEnded("BuilderFailed", message) };
  if (!ended.has(phase)) return undefined;
  const because = reportedProblem(status) ?? { code: "BuilderFailed", cause: message };
  return { what: `is ${phase}${where}`, because };
}

/** The state that the builder starts from. If the source is a sandbox, it is captured first. */
function originOf(underWay: BuildUnderWay): Exclude<BuildOrigin, { kind: "sandbox" }> | { plan: SnapshotPlan } {
  const { state, desired } = underWay;
  const { origin, digest } = desired;
  if (origin.kind !== "sandbox") return origin;
  const { sourceCheckpoint: captured } = state;
  const building = (message: string, waitsFor: ObjectName): Building => ({
    status: "True",
    reason: "CapturingSource",
    message,
    waitsFor,
  });
  const source = { kind: "Sandbox", name: origin.name };
  if (captured === undefined) {
    if (origin.starting !== undefined) {
      const message = `Waiting for the sandbox ${origin.name}: ${origin.starting}`;
      return { plan: waiting(underWay, building(message, source)) };
    }
    const name = sourceCheckpointName(state.snapshot.metadata.name, digest.base);
    const action: SnapshotAction = { do: "capture", of: "source", name, sandboxName: origin.name };
    return {
      plan: { ...waiting(underWay, building(`Capturing the sandbox ${origin.name}`, source)), actions: [action] },
    };
  }
  const id = captured.status?.checkpointId;
  if (isCloneable(captured) && id !== undefined) return { kind: "checkpoint", checkpointId: id };
  if (hasFailed(captured)) {
    return { plan: captureFailed(underWay, captured, `Capturing the sandbox ${origin.name} failed`) };
  }
  const { name } = captured.metadata;
  return { plan: waiting(underWay, building(`Waiting for the Checkpoint ${name}`, { kind: "Checkpoint", name })) };
}

/** Creates a builder from the longest prefix of the recipe that was captured. */
function create(underWay: BuildUnderWay, origin: Exclude<BuildOrigin, { kind: "sandbox" }>): SnapshotPlan {
  const { state, desired, status } = underWay;
  const base = baseOf(underWay, origin);
  const { onLayers, ...rest } = underWay.build;
  // Its layer has been deleted since: the steps run again.
  const build = onLayers === true && base.steps < layerSteps(underWay) ? rest : underWay.build;
  const name = builderName(state.snapshot.metadata.name, build);
  const from =
    base.steps === 0 ? "the beginning" : `the cached state after step ${base.steps} of ${desired.digest.steps.length}`;
  return {
    ...waiting(
      { ...underWay, build, status: { ...status, build } },
      starting(`Starting the sandbox ${name} from ${from}`, name),
    ),
    actions: [{ do: "createBuilder", name, base }],
  };
}

function baseOf(
  { state: { captured }, desired: { digest }, build }: BuildUnderWay,
  origin: Exclude<BuildOrigin, { kind: "sandbox" }>,
): BuilderBase {
  // Each build on the layer of another one adds one. From some depth on, steps run again and make one layer of several.
  const isUsable = (checkpoint: Checkpoint | undefined): boolean =>
    checkpoint !== undefined && (build.onLayers === true || depthOf(checkpoint) < mostLayersOfBase);
  const at = digest.steps.findLastIndex((step) => isUsable(captured.get(step)));
  const cached = captured.get(digest.steps[at] ?? "")?.status?.checkpointId;
  if (cached !== undefined) return { steps: at + 1, checkpointId: cached };
  return origin.kind === "template"
    ? { steps: 0, template: origin.spec }
    : { steps: 0, checkpointId: origin.checkpointId };
}

const mostLayersOfBase = 8;

function depthOf({ status }: Checkpoint): number {
  return Math.max(0, ...(status?.ramet?.parts ?? []).map(({ layers = [] }) => layers.length));
}

/** The builder is running. The steps that it was created with are done; all others are not, whatever an earlier builder did. */
function adopt(underWay: BuildUnderWay, builder: Sandbox): SnapshotPlan {
  const { state, desired, build, status } = underWay;
  const done = baseSteps(builder);
  const before = status.steps ?? [];
  // Those that became the layer have run in this build.
  const steps = freshSteps(state, desired, done).map((step, index) =>
    build.onLayers === true && index < done ? (before[index] ?? step) : step,
  );
  const changes = { build: { ...build, builderUid: builder.metadata.uid }, steps, progress: progressOf(steps) };
  const message = `The sandbox ${builder.metadata.name} is running`;
  const transitions = lackedOnLayer(underWay, builder);
  return { actions: [], status: withStatus(state, { ...status, ...changes }, starting(message)), transitions };
}

function knownReason(reason: string): Building["reason"] {
  return buildFailures.has(reason) ? (reason as Building["reason"]) : "StepFailed";
}

const ended = new Set(["Succeeded", "Failed", "Terminating", "Paused"]);

/** The Checkpoint of the version exists. Only when it has succeeded does the version become current. */
function planCapture(underWay: BuildUnderWay, checkpoint: Checkpoint): SnapshotPlan {
  const { metadata } = checkpoint;
  if (metadata.annotations?.[annotations.snapshotDigest] !== underWay.build.digest)
    return foreign(underWay, metadata.name);
  if (isCloneable(checkpoint)) return publish(underWay, checkpoint);
  if (hasFailed(checkpoint)) return captureFailed(underWay, checkpoint, "Capturing the version failed");
  const message = `Waiting for the Checkpoint ${metadata.name}`;
  const waitsFor = { kind: "Checkpoint", name: metadata.name };
  return waiting(underWay, { status: "True", reason: "CapturingVersion", message, waitsFor });
}

/** Another Checkpoint has the name. As the name contains a part of the digest, this is not a coincidence. */
function foreign(underWay: BuildUnderWay, name: string): SnapshotPlan {
  const { name: snapshot, namespace } = underWay.state.snapshot.metadata;
  const problem: Problem = {
    code: "AlreadyExists",
    cause: `Cannot capture the version: the Checkpoint ${name} exists and is not from this build`,
    hint: `Delete it and run: ramet snapshot build ${snapshot} -n ${namespace}`,
    object: { kind: "Checkpoint", name },
  };
  return fail(underWay, { reason: "CaptureFailed", problem });
}

/** Numbers are never used again, also after versions are deleted. */
function nextVersion({ latestVersion = 0, versions = [] }: NamedSnapshotStatus): number {
  return Math.max(latestVersion, ...versions.map((one) => one.version)) + 1;
}

function publish({ state, desired, build, status }: BuildUnderWay, checkpoint: Checkpoint): SnapshotPlan {
  const { completionTime, checkpointId } = checkpoint.status ?? {};
  const version = nextVersion(status);
  const endedAt = state.now.toISOString();
  const buildMilliseconds = new Date(completionTime ?? endedAt).getTime() - new Date(build.startedAt).getTime();
  const built = {
    version,
    digest: desired.digest.digest,
    checkpointId: checkpointId ?? "",
    checkpointName: checkpoint.metadata.name,
    createdAt: endedAt,
    ...measured(checkpoint),
    // A Checkpoint of an earlier named snapshot with the same name is older than this build.
    ...(buildMilliseconds > 0 && { buildMilliseconds }),
    ...(build.upgrade && { replaces: replacedBy(status, build.upgrade.of) }),
    parent: desired.parent,
    ...(desired.secrets.length > 0 && { secrets: desired.secrets }),
  };
  const changes = {
    ...status,
    versions: [...(status.versions ?? []), built],
    latestVersion: version,
    build: { ...build, endedAt },
  };
  const message = `Version ${version} is built`;
  const note = `${message} and is current`;
  const transitions: Transition[] = [{ type: "Normal", reason: "VersionBuilt", action: "Build", note }];
  const repeated = repeatedNumbers(built);
  if (repeated !== undefined) {
    const warning = `${repeated.cause}. ${repeated.hint}`;
    transitions.push({ type: "Warning", reason: "RandomNumbersRepeat", action: "Build", note: warning });
  }
  const ended = { status: "False", reason: "Built", message } as const;
  return { actions: [], status: withStatus(state, pointer(changes, built), ended), transitions };
}
