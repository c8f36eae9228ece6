import { type Checkpoint, volumeParts } from "../../api/kinds/checkpoint.ts";
import type { Sandbox, SandboxStatus } from "../../api/kinds/sandbox.ts";
import type { PodTemplateSpec } from "../../api/schema/pod-template.ts";
import type { Pod } from "../../api/schema/pod.ts";
import { problemIn, problemOf } from "../../api/state/problem.ts";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import type { RestoreSource } from "../../backends/checkpoint-parts.ts";
import { engineOfParts, memoryPart } from "../../backends/checkpoint-record.ts";
import { hasBegun, hasFailed, isAutomatic, isCloneable, isUnfinished } from "../../api/state/checkpoint.ts";
import { findCondition, report } from "../../kube/conditions.ts";
import { lastRollback } from "../cluster/pause-checkpoint.ts";
import { cellRuns, isEnded, probesProgram } from "../cluster/pod-facts.ts";
import { notHeld } from "./plan-created-paused.ts";
import { hiddenFiles, planStart } from "./plan-start.ts";
import { type RollbackUnderWay, rollbackUnderWay } from "./rollback.ts";
import type { SandboxPlan, SandboxState, StartOutcome } from "./state.ts";
import { changed, type ConditionChange, ended, failed, running } from "./status.ts";

/**
 * Adds the rollback that `ramet.dev/rollback-to` requests to the plan of a sandbox. A rollback that is impossible is refused
 * before anything is changed. In a running Pod, the checkpoint is restored in place. Otherwise the sandbox becomes Resuming,
 * and a new Pod replaces the old one.
 */
export function withRollback(state: SandboxState, plan: SandboxPlan): SandboxPlan {
  const { rollback, sandbox } = state;
  const phase = sandbox.status?.phase;
  // If the phase changes now, the request is answered in the new phase.
  if (rollback === undefined || (plan.status !== undefined && plan.status.phase !== phase)) return plan;
  const decision = decide(state, rollback);
  if ("source" in decision && phase === "Paused") {
    return planPausedRollback(state, plan, { digest: rollback.request.digest, source: decision.source });
  }
  if ("source" in decision) {
    const pod = podForRestoreInPlace(state, decision.source);
    if (pod !== undefined)
      return planRestoreInPlace(state, plan, { pod, ...decision, request: rollback.request.digest });
    return { actions: [], status: beginning(state, rollback.request.digest, decision.source) };
  }
  return planWithoutSource(state, plan, { decision, request: rollback.request });
}

/** The rollback waits, or it is refused. */
function planWithoutSource(
  state: SandboxState,
  plan: SandboxPlan,
  {
    decision,
    request: { digest: request, to },
  }: RollbackRequest & { decision: Exclude<Decision, { source: unknown }> },
): SandboxPlan {
  const status = plan.status ?? state.sandbox.status ?? {};
  if ("wait" in decision) {
    const condition = notRolledBack("Pending", decision.wait);
    return { ...plan, status: withRolledBack(state, status, condition) };
  }
  // What the cell does counts, also if the rollback would be refused now.
  const { restoreInPlace: call, pod } = state;
  if (call?.state === "running") return plan;
  if (call?.state === "done" && pod !== undefined)
    return { actions: plan.actions, status: restoredInPlace(state, call.value, { pod, request, to }) };
  return { ...plan, status: refused(state, status, { request, error: decision.refusal }) };
}

type RollbackRequest = Pick<NonNullable<SandboxState["rollback"]>, "request">;

type Decision = { source: RestoreSource; template: PodTemplateSpec } | { wait: string } | { refusal: RametError };

function decide(state: SandboxState, { origin, request }: NonNullable<SandboxState["rollback"]>): Decision {
  const { sandbox, template } = state;
  const isPausedOrPausing = sandbox.status?.phase === "Paused" || sandbox.spec.paused === true;
  const awaited = sandbox.status?.phase === "Running" ? checkpointUnderWay(state, isPausedOrPausing) : undefined;
  if (awaited !== undefined) return { wait: `The rollback waits for the checkpoint ${awaited}, which is being taken` };
  if (isPausedOrPausing && !isPauseComplete(sandbox)) return { wait: "The rollback waits for the pause to complete" };
  if ("problem" in template) return { refusal: template.problem };
  if (origin.kind === "checkpoint") return { source: origin.source, template: template.template };
  return { refusal: origin.kind === "impossible" ? origin.error : notYet(request.to) };
}

/**
 * The unfinished checkpoint that the rollback waits for. A pause that has started completes first. Any other checkpoint may be
 * the one to roll back to, and the rollback would make it fail.
 */
function checkpointUnderWay(state: SandboxState, pauses: boolean): string | undefined {
  const { pauseCheckpoint } = state;
  if (pauseCheckpoint !== undefined && isUnfinished(pauseCheckpoint)) return pauseCheckpoint.metadata.name;
  return pauses ? undefined : awaitedCheckpoint(state)?.metadata.name;
}

/** Not an automatic one that has not begun: nobody has requested it, and it may wait for a program that the rollback repairs. */
function awaitedCheckpoint({ otherCheckpoint: other }: SandboxState): Checkpoint | undefined {
  return other !== undefined && isAutomatic(other) && !hasBegun(other) ? undefined : other;
}

function isPauseComplete({ status }: SandboxState["sandbox"]): boolean {
  return status?.phase === "Paused" && findCondition(status.conditions, "SandboxPaused")?.status === "True";
}

/**
 * Rolls back a paused sandbox, which stays paused: another Checkpoint, which shares the data of the target, replaces the one of the
 * pause. Until it has succeeded, the old one holds the sandbox.
 */
function planPausedRollback(
  state: SandboxState,
  plan: SandboxPlan,
  { digest, source }: { digest: string; source: RestoreSource },
): SandboxPlan {
  const { rolledBackPause: made, sandbox } = state;
  const status = plan.status ?? sandbox.status ?? {};
  const { checkpointId } = source.name;
  if (made !== undefined && hasFailed(made)) {
    const error = notHeld(checkpointId, made);
    const actions = [...plan.actions, { do: "deleteCheckpoint", checkpoint: made } as const];
    return { ...plan, actions, status: refused(state, status, { request: digest, error }) };
  }
  if (made === undefined || !isCloneable(made)) {
    const wait = notRolledBack("Pending", `The data of the checkpoint ${checkpointId} is being looked up`);
    const persistentContents = source.parts.flatMap(({ contents }) => contents);
    const create = { do: "createPauseCheckpoint", persistentContents, stored: { digest, source } } as const;
    const actions = made === undefined ? [create] : [];
    return { ...plan, actions: [...plan.actions, ...actions], status: withRolledBack(state, status, wait) };
  }
  // With volumes, the resume completes the rollback: the next Pod gets new claims.
  const onResume = volumeParts(source.parts).length > 0 ? made.status?.checkpointId : undefined;
  const rollback = defined({ request: digest, onResume });
  return { ...plan, status: rolledBackWhilePaused(state, status, { rollback, checkpointId }) };
}

function rolledBackWhilePaused(
  state: SandboxState,
  status: SandboxStatus,
  { rollback, checkpointId }: Pick<NonNullable<SandboxStatus["ramet"]>, "rollback"> & { checkpointId: string },
): SandboxStatus {
  const message = `The sandbox continues from the checkpoint ${checkpointId} when it is resumed`;
  const held = { type: "SandboxPaused", status: "True", reason: "SnapshotPauseSucceed", message } as const;
  const ramet = { ...status.ramet, rollback, restoredFrom: checkpointId };
  const answered = report({ ...status, ramet }, [held], { now: state.now });
  return withRolledBack(state, answered, { status: "True", reason: "Succeeded", message });
}

function beginning(state: SandboxState, request: string, { name }: RestoreSource): SandboxStatus {
  const { checkpointId } = name;
  const message = `The sandbox is being rolled back to the checkpoint ${checkpointId}`;
  const replacedPodUid = state.pod?.metadata.uid;
  return {
    ...changed(state, "Resuming", {
      message,
      conditions: [
        { type: "Ready", status: "False", reason: "SandboxNotReady", message },
        notRolledBack("Restoring", message),
      ],
      drop: ["SandboxPaused", "SandboxResumed", "MemoryLoaded"],
    }),
    ramet: {
      ...state.sandbox.status?.ramet,
      rollback: defined({ request, checkpointId, replacedPodUid, before: lastRollback(state.sandbox.status) }),
    },
  };
}

function notYet(to: string): RametError {
  return new RametError("CheckpointNotReady", `${to} cannot be restored: it has not succeeded yet`, {
    hint: "Request the rollback again when the checkpoint is Succeeded",
  });
}

interface RestoreInPlaceRequest {
  pod: Pod;
  template: PodTemplateSpec;
  source: RestoreSource;
  /** The digest of the request. */
  request: string;
}

/** The Pod of the running sandbox, if its cell can restore in place. */
function podForRestoreInPlace(state: SandboxState, source: RestoreSource): Pod | undefined {
  const { sandbox, pod } = state;
  const { phase, podInfo } = sandbox.status ?? {};
  if (phase !== "Running" || pod === undefined || pod.metadata.uid !== podInfo?.podUID) return undefined;
  if (pod.metadata.deletionTimestamp !== undefined || isEnded(pod) || !cellRuns(pod)) return undefined;
  // Without memory the program starts again, and the probes that report when it can be used have succeeded already.
  if (memoryPart(source.parts) === undefined && probesProgram(pod)) return undefined;
  return fitsInPlace(state, source) ? pod : undefined;
}

/** The volumes of a Pod never change. */
function fitsInPlace(state: SandboxState, source: RestoreSource): boolean {
  return volumeParts(source.parts).length === 0 && canRestoreInPlace(state, source);
}

function canRestoreInPlace({ sandbox, restoreInPlace, rollback }: SandboxState, { parts }: RestoreSource): boolean {
  const refusal = restoreInPlace?.state === "failed" ? restoreInPlace.error.code : undefined;
  // Another Pod can have the features or the room.
  if (refusal === "CpuFeaturesMissing" || rollback?.needsNewPod === true) return false;
  const needed = engineOfParts(parts);
  return needed === undefined || needed === sandbox.status?.ramet?.engine;
}

/**
 * Restores a checkpoint in place. The status does not report the start: clients wait for the answer to their request, and a
 * failed restore leaves the sandbox unchanged.
 */
function planRestoreInPlace(state: SandboxState, plan: SandboxPlan, restore: RestoreInPlaceRequest): SandboxPlan {
  const { restoreInPlace } = state;
  if (restoreInPlace === undefined)
    return { ...plan, actions: [...plan.actions, { do: "restoreSandboxInPlace", ...restore }] };
  if (restoreInPlace.state === "done") {
    const { pod, request, source } = restore;
    const status = restoredInPlace(state, restoreInPlace.value, { pod, request, to: source.name.checkpointId });
    return { actions: plan.actions, status, ...hiddenFiles(state.rollback?.origin) };
  }
  if (restoreInPlace.state === "running") return plan;
  const status = plan.status ?? state.sandbox.status ?? {};
  return { ...plan, status: refused(state, status, { request: restore.request, error: restoreInPlace.error }) };
}

function restoredInPlace(
  state: SandboxState,
  outcome: StartOutcome,
  { pod, request, to }: Pick<RestoreInPlaceRequest, "pod" | "request"> & { to: string },
): SandboxStatus {
  const status = running(state, pod, outcome);
  const rollback = { request, ...defined({ programs: outcome.programs }) };
  const answered = { ...status, ramet: { ...status.ramet, rollback } };
  const message = `The sandbox was restored from the checkpoint ${outcome.checkpointId ?? to}`;
  return withRolledBack(state, answered, { status: "True", reason: "Succeeded", message });
}

/**
 * Continues a rollback: deletes the old Pod, then restores the checkpoint in a new one, as a resume does. Undefined: the sandbox only
 * resumes.
 */
export function planRollingBack(state: SandboxState): SandboxPlan | undefined {
  const underWay = rollbackUnderWay(state.sandbox);
  if (underWay === undefined) return undefined;
  const { pod } = state;
  const isReplaced = pod !== undefined && pod.metadata.uid === underWay.replacedPodUid;
  if (!isReplaced || pod.metadata.deletionTimestamp !== undefined)
    return withOutcome(state, planStart(state), underWay);
  const obstacle = obstacleTo(state, underWay);
  if (obstacle !== undefined) return { actions: [], status: withdrawn(state, pod, underWay, obstacle) };
  // A checkpoint of this Pod was requested before the rollback, and would be lost with the Pod.
  if (awaitedCheckpoint(state) !== undefined && !isEnded(pod)) return { actions: [] };
  return { actions: [{ do: "deletePod", pod }] };
}

/** Why the rollback has become impossible since it started. Nothing is lost yet. */
function obstacleTo({ template, origin }: SandboxState, { checkpointId }: RollbackUnderWay): RametError | undefined {
  if ("problem" in template) return template.problem;
  if (origin.kind === "impossible") return origin.error;
  return origin.kind === "checkpoint" ? undefined : notYet(checkpointId);
}

/** Withdraws the rollback. The sandbox continues in its Pod if it has responded there before. */
function withdrawn(state: SandboxState, pod: Pod, { request }: RollbackUnderWay, error: RametError): SandboxStatus {
  const before = (): SandboxStatus => {
    if (isEnded(pod)) return ended(state, pod);
    return pod.metadata.uid === state.sandbox.status?.podInfo?.podUID
      ? changed(state, "Running", {})
      : failed(state, error);
  };
  return refused(state, before(), { request, error });
}

/** Adds the result of the rollback to the status of the start. */
function withOutcome(state: SandboxState, plan: SandboxPlan, { request, checkpointId }: RollbackUnderWay): SandboxPlan {
  const { status } = plan;
  if (status === undefined || status.phase === "Resuming") return plan;
  const answered = { ...status, ramet: { ...status.ramet, rollback: { request } } };
  if (status.phase !== "Running") {
    const { reason = "Internal", message = "" } = findCondition(status.conditions, "Ready") ?? {};
    const problem = problemIn(status);
    return { ...plan, status: withRolledBack(state, answered, { status: "False", reason, message, problem }) };
  }
  const restored = { ...answered, ...restoredBy(state, answered, checkpointId) };
  const message = `The sandbox was restored from the checkpoint ${restored.ramet.restoredFrom}`;
  const replaced = replacedClaims(state.sandbox, status);
  return {
    ...plan,
    actions: [...plan.actions, ...(replaced.length > 0 ? [{ do: "releaseClaims", claims: replaced } as const] : [])],
    status: withRolledBack(state, restored, { status: "True", reason: "Succeeded", message }),
  };
}

/**
 * A sandbox that was paused resumes from a checkpoint of its own, which shares the data of the one that was requested. Any other one was
 * not resumed.
 */
function restoredBy(
  { pauseCheckpoint }: SandboxState,
  { conditions = [], ramet }: SandboxStatus,
  checkpointId: string,
) {
  if (pauseCheckpoint?.status?.checkpointId === checkpointId && ramet?.restoredFrom !== undefined)
    return { conditions, ramet: { ...ramet, restoredFrom: ramet.restoredFrom } };
  const others = conditions.filter(({ type }) => type !== "SandboxResumed");
  return { conditions: others, ramet: { ...ramet, restoredFrom: checkpointId } };
}

/** The claims that the sandbox mounted before a rollback, and does not mount any more. */
function replacedClaims({ status: before }: Sandbox, { ramet }: SandboxStatus): string[] {
  const mounted = new Set(ramet?.claims);
  return (before?.ramet?.claims ?? []).filter((claim) => !mounted.has(claim));
}

/** The status of a sandbox whose Pod can never be created: what its volumes need is gone. */
export function neverStarted(state: SandboxState, error: RametError): SandboxStatus {
  const status = failed(state, error);
  const underWay = rollbackUnderWay(state.sandbox);
  return underWay === undefined ? status : (withOutcome(state, { actions: [], status }, underWay).status ?? status);
}

/** Records that a request is refused. All else in the status stays, also what an earlier rollback left for the resume. */
function refused(
  state: SandboxState,
  status: SandboxStatus,
  { request, error }: { request: string; error: RametError },
): SandboxStatus {
  const answered = withRolledBack(state, status, {
    ...notRolledBack(error.code, error.describe()),
    problem: problemOf(error),
  });
  const onResume = status.phase === "Paused" ? status.ramet?.rollback?.onResume : undefined;
  const rollback = { request, refused: true, ...defined({ onResume, before: lastRollback(state.sandbox.status) }) };
  return { ...answered, ramet: { ...answered.ramet, rollback } };
}

/** Sets the condition `RolledBack`. */
function withRolledBack(
  { now }: SandboxState,
  status: SandboxStatus,
  condition: Omit<ConditionChange, "type">,
): SandboxStatus {
  return report(status, [{ type: "RolledBack", ...condition }], { now });
}

function notRolledBack(reason: string, message: string) {
  return { type: "RolledBack", status: "False", reason, message } as const;
}
