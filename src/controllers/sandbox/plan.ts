import type { Sandbox, SandboxStatus } from "../../api/kinds/sandbox.ts";
import { annotations, finalizers } from "../../api/names/labels.ts";
import type { Pod } from "../../api/schema/pod.ts";
import { parseDuration } from "../../base/duration.ts";
import { RametError } from "../../base/errors.ts";
import { findCondition } from "../../kube/conditions.ts";
import type { Transition } from "../../kube/events.ts";
import { isEnded } from "../common/pod-facts.ts";
import { planPaused } from "./plan-paused.ts";
import { notYet, withRollback } from "./plan-rollback.ts";
import { planRunning } from "./plan-running.ts";
import { planStart } from "./plan-start.ts";
import { refused, rollbackUnderWay, type RollbackUnderWay, withRolledBack } from "./rollback.ts";
import type { SandboxAction, SandboxPlan, SandboxState } from "./state.ts";
import { changed, ended, failed } from "./status.ts";

/**
 * What to do about a sandbox: a pure function of what is known. The phases are those of OpenKruise Agents
 * (pkg/controller/sandbox); phases that Ramet does not know are another controller's business.
 */
export function planSandbox(state: SandboxState): SandboxPlan {
  if (state.sandbox.metadata.deletionTimestamp !== undefined) return withTransition(state, planDeletion(state));
  const { action, nextAt } = timers(state.sandbox, state.now);
  if (action?.do === "deleteSandbox") return { actions: [action] };
  const plan = planPhase(state);
  const requeueAt = earlier(nextAt, slowAt(state));
  return withTransition(state, {
    ...plan,
    actions: [...(action === undefined ? [] : [action]), ...plan.actions],
    ...(requeueAt && { requeueAfterMilliseconds: Math.max(1, requeueAt.getTime() - state.now.getTime()) }),
  });
}

function planPhase(state: SandboxState): SandboxPlan {
  switch (state.sandbox.status?.phase) {
    case undefined:
    case "Pending":
      return planStart(state);
    case "Resuming":
      return planResuming(state);
    case "Running":
      return withRollback(state, planRunning(state));
    case "Paused":
      return withRollback(state, planPaused(state));
    default:
      return withRollback(state, { actions: [] });
  }
}

/** When a sandbox that starts should say for what it waits, if it has not said so before. */
function slowAt({ sandbox, slowInMilliseconds, now }: SandboxState): Date | undefined {
  const phase = sandbox.status?.phase;
  const isStarting = phase === undefined || phase === "Resuming";
  return isStarting && slowInMilliseconds > 0 ? new Date(now.getTime() + slowInMilliseconds) : undefined;
}

/** From what a pause has kept, or back to a checkpoint. */
function planResuming(state: SandboxState): SandboxPlan {
  const underWay = rollbackUnderWay(state.sandbox);
  return underWay === undefined ? planStart(state) : planRollingBack(state, underWay);
}

/** The Pod goes, with its grace period; when it has gone, so may the Sandbox. */
function planDeletion(state: SandboxState): SandboxPlan {
  const { sandbox, pod, pauseCheckpoint, orphans } = state;
  const owned = [...(pauseCheckpoint === undefined ? [] : [pauseCheckpoint]), ...orphans];
  const checkpoints = owned
    .filter(({ metadata }) => metadata.deletionTimestamp === undefined)
    .map((checkpoint) => ({ do: "deleteCheckpoint", checkpoint }) as const);
  if (pod === undefined) {
    const ours = sandbox.metadata.finalizers?.includes(finalizers.sandbox) ?? false;
    return { actions: [...checkpoints, ...(ours ? [{ do: "removeFinalizer" } as const] : [])] };
  }
  return {
    actions: [
      ...checkpoints,
      ...(pod.metadata.deletionTimestamp === undefined ? [{ do: "deletePod", pod } as const] : []),
    ],
    status: changed(state, "Terminating", {
      conditions: [{ type: "Ready", status: "False", reason: "SandboxNotReady", message: "The sandbox is deleted" }],
    }),
  };
}

/** One Event for each change of phase, named as the reference names them. */
function withTransition(state: SandboxState, plan: SandboxPlan): SandboxPlan {
  const phase = plan.status?.phase;
  if (phase === undefined || phase === state.sandbox.status?.phase) return plan;
  const transition: Transition = {
    type: phase === "Failed" ? "Warning" : "Normal",
    reason: `Sandbox${phase}`,
    action: "Reconcile",
    note: plan.status?.message === undefined || plan.status.message === "" ? `It is ${phase}` : plan.status.message,
  };
  return { ...plan, transitions: [...(plan.transitions ?? []), transition] };
}

interface Timers {
  /** What is due. */
  action?: Extract<SandboxAction, { do: "deleteSandbox" | "setPaused" }>;
  /** When the next one is. */
  nextAt?: Date;
}

/**
 * `spec.shutdownTime` and `spec.pauseTime`, as the reference keeps them: past the first the Sandbox is deleted, past the
 * second it is paused. With `agents.kruise.io/reserve-paused-sandbox-duration` a pause that is due moves the shutdown out
 * by that much, and so goes before a shutdown that is due as well.
 */
export function timers(sandbox: Sandbox, now: Date): Timers {
  const { metadata, spec } = sandbox;
  const shutdownAt = instant(spec.shutdownTime);
  const pauseAt = isPausable(sandbox) ? instant(spec.pauseTime) : undefined;
  const pauseIsDue = pauseAt !== undefined && pauseAt <= now;
  const reserved = reserveMilliseconds(metadata.annotations?.[annotations.reservePausedSandboxDuration]);
  if (pauseIsDue && reserved !== undefined) {
    return { action: { do: "setPaused", shutdownTime: new Date(now.getTime() + reserved).toISOString() } };
  }
  if (shutdownAt !== undefined && shutdownAt <= now) return { action: { do: "deleteSandbox" } };
  const nextAt = earlier(shutdownAt, pauseIsDue ? undefined : pauseAt);
  return { ...(pauseIsDue && { action: { do: "setPaused" } }), ...(nextAt && { nextAt }) };
}

function isPausable({ spec, status }: Sandbox): boolean {
  return spec.paused !== true && status?.phase === "Running";
}

function earlier(a: Date | undefined, b: Date | undefined): Date | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return a < b ? a : b;
}

function instant(time: string | undefined): Date | undefined {
  return time === undefined ? undefined : new Date(time);
}

/** Undefined: nothing is reserved. What is no duration reserves nothing, as the annotation is anybody's to write. */
function reserveMilliseconds(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (text === "forever") return 100 * 365 * 86_400_000;
  try {
    return Math.max(0, parseDuration(text));
  } catch (error) {
    if (RametError.from(error).code !== "InvalidArgument") throw error;
    return undefined;
  }
}

/** A rollback that has begun: the Pod makes room, and another one is restored as a resume restores one. */
function planRollingBack(state: SandboxState, underWay: RollbackUnderWay): SandboxPlan {
  const { pod } = state;
  const isReplaced = pod !== undefined && pod.metadata.uid === underWay.replacedPodUid;
  if (!isReplaced || pod.metadata.deletionTimestamp !== undefined)
    return withOutcome(state, planStart(state), underWay);
  const obstacle = obstacleTo(state, underWay);
  if (obstacle !== undefined) return { actions: [], status: withdrawn(state, pod, underWay, obstacle) };
  // One that is being taken of this Pod was asked for first, and would be lost with it.
  if (state.otherCheckpoint !== undefined && !isEnded(pod)) return { actions: [] };
  return { actions: [{ do: "deletePod", pod }] };
}

/** What has become impossible since the rollback began, and while nothing was lost yet. */
function obstacleTo({ template, origin }: SandboxState, { checkpointId }: RollbackUnderWay) {
  if ("problem" in template) return template.problem;
  if (origin.kind === "impossible") return origin.error;
  return origin.kind === "checkpoint" ? undefined : notYet(checkpointId);
}

/** Back to how it was. Only a Pod in which the sandbox has answered is one that it can go on in. */
function withdrawn(state: SandboxState, pod: Pod, { request }: RollbackUnderWay, error: Obstacle): SandboxStatus {
  const before = (): SandboxStatus => {
    if (isEnded(pod)) return ended(state, pod);
    return pod.metadata.uid === state.sandbox.status?.podInfo?.podUID
      ? changed(state, "Running", {})
      : failed(state, error);
  };
  return refused(state, before(), { request, error });
}

type Obstacle = NonNullable<ReturnType<typeof obstacleTo>>;

/** The status of a start, with what it means for the rollback. */
function withOutcome(state: SandboxState, plan: SandboxPlan, { request, checkpointId }: RollbackUnderWay): SandboxPlan {
  const { status } = plan;
  if (status === undefined || status.phase === "Resuming") return plan;
  const answered = { ...status, ramet: { ...status.ramet, rollback: { request } } };
  if (status.phase !== "Running") {
    const { reason = "Internal", message = "" } = findCondition(status.conditions, "Ready") ?? {};
    return { ...plan, status: withRolledBack(state, answered, { status: "False", reason, message }) };
  }
  const message = `It goes on from the checkpoint ${checkpointId}`;
  const conditions = (status.conditions ?? []).filter(({ type }) => type !== "SandboxResumed");
  const restored = { ...answered, conditions, ramet: { ...answered.ramet, restoredFrom: checkpointId } };
  return { ...plan, status: withRolledBack(state, restored, { status: "True", reason: "Succeeded", message }) };
}
