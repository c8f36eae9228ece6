import { earliestUnreadySeconds } from "../../api/pod/cell-container.ts";
import type { SandboxStatus } from "../../api/kinds/sandbox.ts";
import { initRequestDigest } from "../../api/names/init-request.ts";
import { automaticCheckpointsOf } from "../../api/pod/disruption.ts";
import { isPodReady, type Pod } from "../../api/schema/pod.ts";
import type { Problem } from "../../api/schema/problem.ts";
import { problemIn, within } from "../../api/state/problem.ts";
import { defined } from "../../base/defined.ts";
import { findCondition } from "../../kube/conditions.ts";
import {
  captureProgress,
  checkpointState,
  delaysPause,
  isCloneable,
  isUnfinished,
} from "../../api/state/checkpoint.ts";
import { isUnclaimed } from "../cluster/pause-checkpoint.ts";
import {
  cellRuns,
  cellStartedAt,
  declaresReadiness,
  disruptionCause,
  exceededStorage,
  isEnded,
  isEndedByNode,
  unreadyMessage,
} from "../cluster/pod-facts.ts";
import { intendedEnd, planDisruption } from "./plan-disruption.ts";
import { planLost } from "./plan-lost.ts";
import { surplusAutomatic } from "./plan-paused.ts";
import { withAutomaticCheckpoint } from "./plan-scheduled-checkpoint.ts";
import {
  type SandboxAction,
  type SandboxPlan,
  type SandboxState,
  contentsOfPause,
  isAdoptionPending,
} from "./state.ts";
import {
  type ConditionChange,
  amended,
  changed,
  ended,
  initialized,
  lost,
  memoryLoaded,
  memoryNotLoaded,
  notApplied,
  notPaused,
  paused,
} from "./status.ts";

/** Pauses a running sandbox on request, and otherwise reports the state of its Pod. */
export function planRunning(state: SandboxState): SandboxPlan {
  const { sandbox, pod, pauseCheckpoint, orphans } = state;
  const surplus = pod === undefined || automaticCheckpointsOf(pod) !== undefined ? [] : surplusAutomatic(state);
  const tidyUp = [...orphans, ...surplus].map((checkpoint) => ({ do: "deleteCheckpoint", checkpoint }) as const);
  const disrupted = planDisruption(state);
  if (disrupted !== undefined) return withActions(disrupted, tidyUp);
  // A checkpoint that ends its source cannot be canceled: the pause completes, then the sandbox resumes.
  const pausing = pauseCheckpoint !== undefined && (isUnfinished(pauseCheckpoint) || isCloneable(pauseCheckpoint));
  if (pausing) return withActions(planPausing(state), tidyUp);
  const end = planEnd(state);
  if (end !== undefined) return end;
  if (sandbox.spec.paused === true) return withActions(planPausing(state), tidyUp);
  const dropped =
    pauseCheckpoint === undefined ? [] : [{ do: "deleteCheckpoint", checkpoint: pauseCheckpoint } as const];
  const plan = withAutomaticCheckpoint(state, withAdoption(state, planReadiness(state)));
  return withActions(plan, [...tidyUp, ...dropped]);
}

/** Reports that the Pod has ended, or was deleted by someone other than this controller. */
function planEnd(state: SandboxState): SandboxPlan | undefined {
  const { sandbox, pod } = state;
  const recorded = sandbox.status?.podInfo?.podUID;
  const isOwn = pod !== undefined && (recorded === undefined || pod.metadata.uid === recorded);
  if (isOwn && !isEnded(pod) && pod.metadata.deletionTimestamp === undefined) return undefined;
  const continued = planLost(state);
  if (continued !== undefined) return continued;
  if (isOwn && isEnded(pod)) return { actions: [], status: ended(state, pod), ...endedByNode(pod) };
  return { actions: isOwn ? intendedEnd(pod) : [], status: lost(state), isOfUnclaimed: isUnclaimed(sandbox) };
}

function endedByNode(pod: Pod): Pick<SandboxPlan, "transitions"> {
  if (pod.status?.phase !== "Failed" || !isEndedByNode(pod)) return {};
  const words = exceededStorage(pod)?.cause;
  const note = `The node has ended the Pod (${disruptionCause(pod)}) before the sandbox could be captured${words === undefined ? "" : `. ${words}`}`;
  return { transitions: [{ type: "Warning", reason: "SandboxDisrupted", action: "Reconcile", note }] };
}

/**
 * The cell's response made the sandbox ready, often before the kubelet's first probe. So the Pod's condition counts only if it
 * became False after that.
 */
function planReadiness(state: SandboxState): SandboxPlan {
  const { sandbox, pod } = state;
  if (pod === undefined) return { actions: [] };
  const conditions = sandbox.status?.conditions;
  const ready = findCondition(conditions, "Ready");
  const problem = ready?.status === "True" ? unreadySince(pod, ready.lastTransitionTime) : undefined;
  if (problem !== undefined) {
    const message = unreadyMessage(pod);
    const condition = { type: "Ready", status: "False", reason: "SandboxNotReady", message } as const;
    return {
      actions: [],
      status: changed(state, "Running", { message, conditions: [condition], drop: ["SandboxPaused"] }),
    };
  }
  if (ready?.status !== "True" && !isPodReady(pod)) return { actions: [], status: stillUnready(state, pod) };
  const condition = { type: "Ready", status: "True", reason: "PodReady" } as const;
  const { actions, conditions: memory } = planMemory(state, pod);
  return {
    actions,
    status: changed(state, "Running", { conditions: [condition, ...memory], drop: ["SandboxPaused"] }),
  };
}

/** The node's report may name another problem than before. */
function stillUnready(state: SandboxState, pod: Pod): SandboxStatus {
  const ready = findCondition(state.sandbox.status?.conditions, "Ready");
  const drop = ["SandboxPaused"];
  if (!declaresReadiness(pod)) return changed(state, "Running", { message: ready?.message ?? "", drop });
  const message = unreadyMessage(pod);
  const condition = { type: "Ready", status: "False", reason: ready?.reason ?? "SandboxNotReady", message } as const;
  return changed(state, "Running", { message, conditions: [condition], drop });
}

/** Waits until all memory of a clone is loaded, if it was not when the clone first responded. */
function planMemory(
  { sandbox, load }: SandboxState,
  pod: Pod,
): { actions: SandboxAction[]; conditions: ConditionChange[] } {
  if (findCondition(sandbox.status?.conditions, "MemoryLoaded")?.status !== "False")
    return { actions: [], conditions: [] };
  if (load === undefined) return { actions: [{ do: "awaitMemory", pod }], conditions: [] };
  if (load.state === "running") return { actions: [], conditions: [] };
  return { actions: [], conditions: [load.state === "done" ? memoryLoaded() : memoryNotLoaded(load.error)] };
}

/**
 * Why the Pod is not ready; undefined if it is ready, or has not become unready since `instant`. A node whose clock is ahead
 * reports a time after `instant` for a Pod that has never been ready, so the cell's start by the same clock counts too. Both are
 * whole seconds, and a clock can be corrected in between: what follows the start too soon is the node's first report.
 */
export function unreadySince(pod: Pod, instant: string): string | undefined {
  const condition = pod.status?.conditions?.find(({ type, status }) => type === "Ready" && status === "False");
  const since = condition?.lastTransitionTime;
  if (condition === undefined || since == null) return undefined;
  const began = cellStartedAt(pod);
  const toleratedSeconds = declaresReadiness(pod) ? 0 : earliestUnreadySeconds;
  const isNew = began === undefined || Date.parse(since) > Date.parse(began) + toleratedSeconds * 1000;
  if (!isNew || !isAfterReady(pod, since, instant)) return undefined;
  return condition.message ?? condition.reason ?? "no reason given";
}

/** With declared readiness, an earlier report of the node has made the sandbox ready: a report of the same second came after it. */
function isAfterReady(pod: Pod, since: string, instant: string): boolean {
  const later = Date.parse(since) - Date.parse(instant);
  return declaresReadiness(pod) ? later >= 0 : later > 0;
}

function withActions(plan: SandboxPlan, actions: SandboxAction[]): SandboxPlan {
  return { ...plan, actions: [...plan.actions, ...actions] };
}

/**
 * Gives the guest the environment that the sandbox's annotation requests, such as that of a claim. New commands get it;
 * running processes keep theirs.
 */
function withAdoption(state: SandboxState, plan: SandboxPlan): SandboxPlan {
  const { sandbox, pod, template, adoption } = state;
  // The restored sandbox gets the environment with the restore.
  if (state.rollback !== undefined) return plan;
  if (!isAdoptionPending(sandbox) || pod === undefined || "problem" in template || !cellRuns(pod)) return plan;
  if (adoption === undefined) {
    return { ...plan, actions: [...plan.actions, { do: "adoptIdentity", pod, template: template.template }] };
  }
  if (adoption.state === "failed") {
    const failure = { ...notApplied("RuntimeInitialized", adoption.error), reason: "Failed" };
    return amended(state, plan, { conditions: [failure] });
  }
  if (adoption.state === "running") return plan;
  const { status, ...rest } = amended(state, plan, { conditions: [initialized] });
  const { initRequest: _, ...ramet } = status.ramet ?? {};
  const initRequest = initRequestDigest(sandbox);
  const { generation } = adoption.value;
  return {
    ...rest,
    status: { ...status, ramet: { ...ramet, generation, ...defined({ initRequest }) } },
  };
}

/**
 * From Running to Paused. With a checkpoint, the phase changes when the checkpoint has succeeded, so a failed pause leaves the
 * sandbox running; with the strategy Stop, it changes immediately.
 */
function planPausing(state: SandboxState): SandboxPlan {
  const { pauseCheckpoint } = state;
  const is = pauseCheckpoint && checkpointState(pauseCheckpoint);
  // One that is being deleted holds nothing, and the next one gets its name.
  if (pauseCheckpoint === undefined || is === "deleting") return planPauseStart(state);
  const { name } = pauseCheckpoint.metadata;
  if (is === "unfinished") {
    return stillRunning(state, "CheckpointCreating", `The checkpoint ${name} ${captureProgress(pauseCheckpoint)}`);
  }
  if (is === "failed") {
    const why = pauseCheckpoint.status?.message ?? "no reason given";
    const what = `The checkpoint ${name} failed, and the sandbox continues to run`;
    const problem = within(problemIn(pauseCheckpoint.status) ?? { code: "CheckpointFailed", cause: why }, what);
    const message = `${what}: ${why}. The pause is not repeated: set spec.paused to false, then to true, to try again`;
    return stillRunning(state, "CheckpointFailed", message, problem);
  }
  return planPaused(state, "CheckpointSucceeded", `The checkpoint ${name} has the sandbox's state`);
}

function planPauseStart(state: SandboxState): SandboxPlan {
  const { template, otherCheckpoint, sandbox } = state;
  const resolved = "problem" in template ? undefined : template;
  const strategy = sandbox.spec.pauseStrategy?.type ?? resolved?.pauseStrategy?.type;
  if (strategy === "Stop") return planPaused(state, "Pending", "The Pod is deleted; its memory and files are not kept");
  if (otherCheckpoint !== undefined && delaysPause(otherCheckpoint)) {
    const message = `The pause waits for the checkpoint ${otherCheckpoint.metadata.name}, which is being taken`;
    return stillRunning(state, "Pending", message);
  }
  const plan = stillRunning(state, "CheckpointCreating", "A checkpoint is being taken");
  return { ...plan, actions: [{ do: "createPauseCheckpoint", persistentContents: contentsOfPause(state) }] };
}

function stillRunning(state: SandboxState, reason: string, message: string, problem?: Problem): SandboxPlan {
  return { actions: [], status: notPaused(state, { reason, message, problem }) };
}

function planPaused(state: SandboxState, reason: string, message: string): SandboxPlan {
  return { actions: [], status: paused(state, { reason, message }) };
}
