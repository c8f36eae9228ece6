import { hasLayer } from "../../api/kinds/checkpoint.ts";
import { hasFailed, isCloneable, leftOutNotes } from "../../api/state/checkpoint.ts";
import { actionOf, describeStep, type RecipeStep } from "../../api/recipe/recipe.ts";
import type { SnapshotStep } from "../../api/kinds/named-snapshot-status.ts";
import type { Problem } from "../../api/schema/problem.ts";
import { annotations } from "../../api/names/labels.ts";
import { problemOf, reportedBy } from "../../api/state/problem.ts";
import { defined } from "../../base/defined.ts";
import type { RametError } from "../../base/errors.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { recordedRecipe } from "../../api/snapshot/diff-versions.ts";
import { stepCheckpointName, versionCheckpointName } from "./names.ts";
import {
  captureFailed,
  entrypointEnded,
  fail,
  lost,
  retry,
  starting,
  waiting,
  whereIn,
  type BuildUnderWay,
} from "./build-under-way.ts";
import type { SnapshotAction, SnapshotPlan } from "./state.ts";
import { findCondition } from "../../kube/conditions.ts";
import type { Transition } from "../../kube/events.ts";
import { progressOf, withStatus, type Building } from "./status.ts";
import { lastLines, type StepOutcome } from "./steps/step.ts";

/** Plans the next step in a running builder: a capture of the previous step, the step itself, or finally the version. */
export function planSteps(underWay: BuildUnderWay, builder: Sandbox): SnapshotPlan {
  const { state, status, desired } = underWay;
  const steps = status.steps ?? [];
  const index = steps.findIndex((step) => step.state !== "Succeeded");
  const step = steps[index];
  const next = index < 0 ? steps.length : index;
  const captured = planStepCapture(underWay, builder, next) ?? planLayers(underWay, builder, next);
  if (captured !== undefined) return captured;
  if (step === undefined) return captureVersion(underWay, builder);
  if (onlySets(underWay, index)) return record(underWay, index, { ...step, state: "Succeeded", milliseconds: 0 });
  const { attempt } = state;
  const building = running(underWay, index);
  const start: SnapshotAction = { do: "startStep", index, builder, desired, fresh: step.state === "Pending" };
  if (step.state === "Pending") {
    return { ...record(underWay, index, { ...step, state: "Running" }), afterStatus: [start] };
  }
  if (attempt === undefined) return resume(underWay, index, start);
  if (attempt.state === "running") return waiting(underWay, fetchWaiting(state, building));
  if (attempt.state === "failed") return broken(underWay, { index, builder, error: attempt.error });
  return ended(underWay, { index, builder, step, outcome: attempt.value });
}

/**
 * Continues a step that ran when the controllers stopped. A step that makes them stop would do so for ever, and with it the work
 * for all namespaces, so the count is written before each try. Updates of the controllers are further apart.
 */
function resume(underWay: BuildUnderWay, index: number, start: SnapshotAction): SnapshotPlan {
  const { state, build, status } = underWay;
  const { interruptions: before } = build;
  const isSoon = before !== undefined && state.now.getTime() - Date.parse(before.at) < soonMilliseconds;
  const count = isSoon && before.step === index + 1 ? before.count + 1 : 1;
  if (count >= mostInterruptions) {
    const { name, namespace } = state.snapshot.metadata;
    const problem: Problem = {
      code: "ControllersStopped",
      cause: `The controllers stopped ${count} times while the build was${whereIn(status)}, so it was given up`,
      hint: `Read the log of their previous containers, correct the step, then run: ramet snapshot build ${name} -n ${namespace}`,
    };
    return fail(underWay, { reason: "ControllersStopped", problem, step: index + 1 });
  }
  const interruptions = { step: index + 1, count, at: state.now.toISOString() };
  const noted = { ...status, build: { ...build, interruptions } };
  return { actions: [], status: withStatus(state, noted, running(underWay, index)), afterStatus: [start] };
}

const mostInterruptions = 3;
const soonMilliseconds = 600_000;

function fetchWaiting({ fetchWait }: BuildUnderWay["state"], building: Building): Building {
  if (fetchWait === undefined) return building;
  return { ...building, reason: "FetchQuotaReached", message: `${building.message}: ${fetchWait}` };
}

interface StepEnd {
  index: number;
  builder: Sandbox;
  step: SnapshotStep;
}

function ended(
  underWay: BuildUnderWay,
  { index, builder, step, outcome }: StepEnd & { outcome: StepOutcome },
): SnapshotPlan {
  const { milliseconds, log, exitCode, error } = outcome;
  const output = lastLines(log);
  const finished: SnapshotStep = {
    ...step,
    state: error === undefined ? "Succeeded" : "Failed",
    milliseconds: Math.round(milliseconds),
    ...defined({ exitCode }),
    ...(output !== "" && { output }),
    ...defined({ error }),
  };
  const { plan, underWay: after } = recorded(underWay, index, finished);
  const kept: SnapshotAction[] = log === "" ? [] : [{ do: "keepLog", index, digest: underWay.build.digest, text: log }];
  const forget: SnapshotAction = { do: "forgetStep", index, builderUid: builder.metadata.uid };
  if (error === undefined) return { ...plan, actions: kept, afterStatus: [forget] };
  const count = underWay.status.steps?.length ?? 0;
  const cause = `Step ${index + 1} of ${count} (${step.step}) failed: ${error}`;
  const message = output === "" ? cause : `${cause}\n${output}`;
  const failed = fail(after, {
    reason: "StepFailed",
    message,
    problem: { code: "StepFailed", cause },
    step: index + 1,
  });
  return { ...failed, actions: kept, afterStatus: [forget] };
}

/** The result of the step is unknown, so the state of its builder is too. The builder is deleted. */
function broken(
  underWay: BuildUnderWay,
  { index, builder, error }: Pick<StepEnd, "index" | "builder"> & { error: RametError },
): SnapshotPlan {
  // The cell can report the end of the entrypoint before the sandbox does.
  const isEntrypoint = error.code === "SandboxNotReady";
  const because = isEntrypoint ? entrypointEnded(error.code, error.message) : problemOf(error);
  const plan = lost(underWay, { what: `was lost${whereIn(underWay.status)}`, because });
  return { ...plan, afterStatus: [{ do: "forgetStep", index, builderUid: builder.metadata.uid }] };
}

/** Captures the state after the step before `next`, unless that is done or not required. A failed capture only costs time. */
function planStepCapture(underWay: BuildUnderWay, builder: Sandbox, next: number): SnapshotPlan | undefined {
  const last = next - 1;
  const step = underWay.status.steps?.[last];
  if (step === undefined || step.cached || !isCaptured(underWay, last)) return undefined;
  return captureStep(underWay, builder, last);
}

/** Captures the state after a step. Undefined: it is captured, or that has failed. */
function captureStep(underWay: BuildUnderWay, builder: Sandbox, index: number): SnapshotPlan | undefined {
  const { state, status } = underWay;
  const { stepCheckpoint } = state;
  const step = status.steps?.[index];
  if (step === undefined) return undefined;
  if (
    state.captured.has(step.digest) ||
    (stepCheckpoint !== undefined && (isCloneable(stepCheckpoint) || hasFailed(stepCheckpoint)))
  )
    return undefined;
  const building: Building = {
    status: "True",
    reason: "CapturingStep",
    message: `Capturing the state after step ${index + 1} of ${status.steps?.length ?? 0}`,
  };
  if (stepCheckpoint !== undefined) return waiting(underWay, building);
  const name = stepCheckpointName(state.snapshot.metadata.name, step.digest, engineOf(builder));
  return {
    ...waiting(underWay, building),
    actions: [
      {
        do: "capture",
        of: "step",
        name,
        sandboxName: builder.metadata.name,
        stepDigest: step.digest,
        asLayer: makesLayer(underWay, builder, index),
      },
    ],
  };
}

/** After the last step whose files are a layer, boots the sandbox on it: what these steps have left in memory is in no clone. */
function planLayers(underWay: BuildUnderWay, builder: Sandbox, next: number): SnapshotPlan | undefined {
  const { state, status, build } = underWay;
  const last = next - 1;
  const step = status.steps?.[last];
  if (step === undefined || next !== layerSteps(underWay) || !makesLayer(underWay, builder, last)) return undefined;
  if (isOneLayer(underWay)) return undefined;
  const layer = state.captured.get(step.digest);
  if (!hasLayer(layer?.status?.ramet?.parts)) {
    return captureStep(underWay, builder, last) ?? layerFailed(underWay, step);
  }
  const { builderUid: _, ...rest } = build;
  const booting = {
    ...underWay,
    build: { ...rest, onLayers: true },
    status: { ...status, build: { ...rest, onLayers: true } },
  };
  return bootOnLayer(booting, builder);
}

/** Boots a builder in its Pod on the layer that its steps became. Undefined: it has done so, or has begun on the layer. */
export function bootOnLayer(underWay: BuildUnderWay, builder: Sandbox): SnapshotPlan | undefined {
  const { state, desired, build } = underWay;
  const steps = layerSteps(underWay);
  if (build.onLayers !== true) return undefined;
  if (baseSteps(builder) >= steps) return bootRefused(underWay, builder);
  const checkpointId = state.captured.get(desired.digest.steps[steps - 1] ?? "")?.status?.checkpointId;
  if (checkpointId === undefined) return lost(underWay, { what: "began before a layer that has been deleted" });
  const message = `Steps 1 to ${steps} are a layer; the sandbox boots on it`;
  // Without the status, a builder that has booted would have no record of the steps that ran in it.
  return {
    ...waiting(underWay, starting(message, builder.metadata.name)),
    afterStatus: [{ do: "bootBuilder", builder, checkpointId, steps }],
  };
}

function bootRefused(underWay: BuildUnderWay, { status }: Sandbox): SnapshotPlan | undefined {
  const boot = findCondition(status?.conditions, "RolledBack");
  if (boot?.status !== "False") return undefined;
  return lost(underWay, { what: "did not boot on the layer of its steps", because: reportedBy(status, boot) });
}

/** Reports what a builder that has booted on a layer lacks, so that nobody looks for it in clones. */
export function lackedOnLayer({ state, desired }: BuildUnderWay, builder: Sandbox): Transition[] {
  const layer = state.captured.get(desired.digest.steps[baseSteps(builder) - 1] ?? "");
  const notes = leftOutNotes(layer?.status?.ramet?.parts);
  return [
    ...endedPrograms(builder),
    ...notes.map((note): Transition => ({ type: "Warning", reason: "DevicesLeftOut", action: "Build", note })),
  ];
}

function endedPrograms({ status }: Sandbox): Transition[] {
  const { ended, running } = status?.ramet?.rollback?.programs ?? {};
  const names = ended?.names.filter((name) => running?.names.includes(name) !== true) ?? [];
  if (names.length === 0) return [];
  const note = `The boot on the layer ended ${names.join(", ")}: start what must run in clones in a start step`;
  return [{ type: "Normal", reason: "ProgramsEnded", action: "Build", note }];
}

/** The number of steps that the state contains which the builder started or booted from. */
export function baseSteps({ metadata }: Sandbox): number {
  return Number(metadata.annotations?.[annotations.buildBaseSteps] ?? 0);
}

function layerFailed(underWay: BuildUnderWay, { step }: SnapshotStep): SnapshotPlan {
  const { stepCheckpoint } = underWay.state;
  const what = `Capturing the files after ${step} as a layer failed`;
  return stepCheckpoint === undefined
    ? retry(underWay, { reason: "CaptureFailed", problem: { code: "CaptureFailed", cause: what } })
    : captureFailed(underWay, stepCheckpoint, what);
}

/** Whether the files after a step become a layer: nothing in memory is needed up to it, and the builder has only files. */
function makesLayer(underWay: BuildUnderWay, builder: Sandbox, index: number): boolean {
  if (!underWay.desired.digest.layers || index >= layerSteps(underWay)) return false;
  const begun = baseSteps(builder);
  // It has booted on these steps, or has the memory of an earlier build.
  if (begun > index) return false;
  const base = underWay.state.captured.get(underWay.desired.digest.steps[begun - 1] ?? "");
  return begun === 0 || hasLayer(base?.status?.ramet?.parts);
}

/** The number of leading steps that only change files. */
export function layerSteps({ state }: BuildUnderWay): number {
  const { recipe } = state.snapshot.spec;
  const first = recipe.findIndex(needsMemory);
  const files = first < 0 ? recipe : recipe.slice(0, first);
  // Steps that change nothing have no state to capture.
  return files.findLastIndex((step) => !setters.has(actionOf(step))) + 1;
}

function needsMemory(step: RecipeStep): boolean {
  return ["start", "waitFor"].includes(actionOf(step));
}

function engineOf({ status }: Sandbox): string | undefined {
  return status?.ramet?.engine;
}

function isCaptured(underWay: BuildUnderWay, index: number): boolean {
  const { stepCache, contents, recipe } = underWay.state.snapshot.spec;
  if (stepCache === "None" || onlySets(underWay, index)) return false;
  const isLast = index === recipe.length - 1;
  // The version is the captured state after the last step if it has memory, or is a layer itself.
  if (isLast) return !contents.includes("memory") && !isOneLayer(underWay);
  return stepCache === "EveryStep";
}

function captureVersion({ state, build, status, desired }: BuildUnderWay, builder: Sandbox): SnapshotPlan {
  const { name } = state.snapshot.metadata;
  const { contents, recipe } = state.snapshot.spec;
  const { layers } = desired.digest;
  const memory = contents.includes("memory");
  // A longer recipe must begin on the layer instead, or the files of its further steps would be no layer.
  const endsInLayer = layers && !recipe.some(needsMemory);
  const capture: SnapshotAction = {
    do: "capture",
    of: "version",
    name: versionCheckpointName(name, build.digest, build.upgrade?.of),
    sandboxName: builder.metadata.name,
    digest: build.digest,
    stepDigest: memory !== endsInLayer ? desired.digest.steps.at(-1) : undefined,
    asLayer: !memory && layers,
    recipe: recordedRecipe(recipe, desired.copied),
  };
  const building: Building = { status: "True", reason: "CapturingVersion", message: "Capturing the version" };
  return { actions: [capture], status: withStatus(state, status, building) };
}

/** Whether the version is nothing but the files of its steps, so that nothing has to run on their layer. */
function isOneLayer({ state: { snapshot }, desired: { digest } }: BuildUnderWay): boolean {
  const { contents, recipe } = snapshot.spec;
  return digest.layers && !contents.includes("memory") && !recipe.some(needsMemory);
}

/** Whether the step only affects later steps and changes nothing in the sandbox. */
function onlySets({ state }: BuildUnderWay, index: number): boolean {
  const step = state.snapshot.spec.recipe[index];
  return step !== undefined && setters.has(actionOf(step));
}

const setters: ReadonlySet<string> = new Set(["env", "workdir", "user"]);

function record(underWay: BuildUnderWay, index: number, step: SnapshotStep): SnapshotPlan {
  return recorded(underWay, index, step).plan;
}

function recorded(underWay: BuildUnderWay, index: number, step: SnapshotStep) {
  const steps = (underWay.status.steps ?? []).with(index, step);
  const status = { ...underWay.status, steps, progress: progressOf(steps) };
  const after = { ...underWay, status };
  const plan: SnapshotPlan = { actions: [], status: withStatus(underWay.state, status, running(after, index)) };
  return { plan, underWay: after };
}

function running({ state, status }: BuildUnderWay, index: number): Building {
  const step = state.snapshot.spec.recipe[index];
  const message = `Step ${index + 1} of ${status.steps?.length ?? 0}: ${step === undefined ? "" : describeStep(step)}`;
  return { status: "True", reason: "RunningStep", message };
}
