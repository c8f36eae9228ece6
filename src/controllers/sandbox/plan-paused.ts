import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import type { SandboxStatus } from "../../api/kinds/sandbox.ts";
import { checkpointsKept } from "../../api/pod/disruption.ts";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import type { Condition } from "../../api/schema/metadata.ts";
import type { Pod } from "../../api/schema/pod.ts";
import { problemOf } from "../../api/state/problem.ts";
import { findCondition } from "../../kube/conditions.ts";
import { isUnderWay, surplusOf } from "../cluster/pause-checkpoint.ts";
import { causeOfEndedStart, endProblem, isEnded, unscheduledWords } from "../cluster/pod-facts.ts";
import { awaitsRetry, isPassing, isResume } from "./rollback.ts";
import type { SandboxPlan, SandboxState } from "./state.ts";
import { changed, type ConditionChange, failed, notStartable } from "./status.ts";

/** Deletes the Pod, then reports the pause as complete, and resumes on request. */
export function planPaused(state: SandboxState): SandboxPlan {
  const { sandbox, pod, orphans } = state;
  const tidyUp = [...orphans, ...surplusAutomatic(state)].map(
    (checkpoint) => ({ do: "deleteCheckpoint", checkpoint }) as const,
  );
  const condition = findCondition(sandbox.status?.conditions, "SandboxPaused");
  const completed = pauseCompleted(condition);
  const isResumed = sandbox.spec.paused !== true;
  // After the end of its Pod it resumes in turn, as many others may.
  const resume = isResumed && state.departure?.turn !== "later" ? () => resuming(state, completed) : undefined;
  if (pod !== undefined) {
    const isDeleting = pod.metadata.deletionTimestamp !== undefined;
    const isKept = isDeleting || (isResumed && isOfResume(state, pod));
    if (!isKept) return { actions: [{ do: "deletePod", pod }, ...tidyUp] };
    // The resume waits for the end of the Pod, and its status need not.
    return { actions: tidyUp, ...defined({ status: resume?.() }) };
  }
  // A resume that was requested meanwhile needs no status in between.
  if (resume !== undefined) return { actions: tidyUp, status: resume() };
  if (isResumed) return { actions: tidyUp, requeueAfterMilliseconds: 15_000 };
  return {
    actions: tidyUp,
    status: withoutMove(changed(state, "Paused", { conditions: [completed], drop: ["Ready"] })),
  };
}

/** A pause that was requested ends a move: it does not wait for a node any more, and a later resume is none. */
function withoutMove(status: SandboxStatus): SandboxStatus {
  const { noTarget: _, disruption, ...ramet } = status.ramet ?? {};
  const ended = disruption && isUnderWay(disruption) ? { ...disruption, outcome: "Paused" } : disruption;
  return { ...status, ...(status.ramet && { ramet: { ...ramet, ...defined({ disruption: ended }) } }) };
}

/**
 * The automatic checkpoints that are deleted while no more are taken: the last ones stay until the sandbox is deleted, and so does the one
 * that holds it.
 */
export function surplusAutomatic({ sandbox, pod, pauseCheckpoint, automatic = [] }: SandboxState): Checkpoint[] {
  const kept = checkpointsKept((pod?.metadata ?? sandbox.status?.podInfo)?.annotations ?? {});
  const others = automatic.filter((one) => one !== pauseCheckpoint);
  const isHolding = automatic.length > others.length;
  return surplusOf(others, isHolding ? kept - 1 : kept);
}

/** Whether the Pod was created while the status of the resume was written, and that write has failed. */
function isOfResume({ sandbox }: SandboxState, { metadata }: Pod): boolean {
  return metadata.uid !== sandbox.status?.podInfo?.podUID;
}

function pauseCompleted(condition: Condition | undefined): ConditionChange {
  const type = "SandboxPaused";
  if (condition?.status === "True")
    return { type, status: "True", reason: condition.reason, message: condition.message };
  const kept = condition?.reason === "CheckpointSucceeded";
  const reason = kept ? "SnapshotPauseSucceed" : "StopPauseSucceed";
  const message = kept ? condition.message : "Its memory and files are not kept";
  return { type, status: "True", reason, message };
}

function resuming(state: SandboxState, completed: ConditionChange) {
  const isLost = completed.reason === "SnapshotPauseSucceed" && state.pauseCheckpoint === undefined;
  if (isLost) return failed(state, pauseLost());
  const message = "A Pod is being created";
  const status = changed(state, "Resuming", {
    conditions: [
      completed,
      { type: "SandboxResumed", status: "False", reason: "CreatePod", message },
      { type: "Ready", status: "False", reason: "SandboxNotReady", message: "The sandbox is being resumed" },
    ],
  });
  // An earlier resume was given up.
  const { endedPods: _, ...ramet } = status.ramet ?? {};
  return { ...status, ramet };
}

/** Ends a resume that waits for somebody if another pause is requested. The checkpoint of the pause is still there. */
export function planPausedAgain(state: SandboxState): SandboxPlan | undefined {
  const { sandbox, pod, origin } = state;
  if (sandbox.spec.paused !== true || !isResume(sandbox)) return undefined;
  const isChanged = origin.kind === "impossible" && origin.error.code === "TemplateMismatch";
  const isStuck = (one: Pod) =>
    refusedResume(state, one) !== undefined ||
    unscheduledWords(one) !== undefined ||
    causeOfEndedStart(one) !== undefined;
  const waits = pod === undefined ? isChanged || awaitsRetry(sandbox) : isStuck(pod);
  const condition = findCondition(sandbox.status?.conditions, "SandboxPaused");
  if (!waits || condition?.reason !== "SnapshotPauseSucceed") return undefined;
  const isThere = pod !== undefined && pod.metadata.deletionTimestamp === undefined;
  return {
    actions: isThere ? [{ do: "deletePod", pod }] : [],
    status: changed(state, "Paused", { drop: ["Ready", "SandboxResumed"] }),
  };
}

/**
 * Why the cell of a resume does not have the image of the pause, or cannot read the store: its words, or those that its Pod has ended with.
 */
export function refusedResume(state: SandboxState, pod: Pod): RametError | undefined {
  if (!isResume(state.sandbox)) return undefined;
  const { start } = state;
  if (start?.state === "done") return undefined;
  if (start?.state === "failed" && isPassing(start.error.code)) return start.error;
  // The refusal may have been lost, or another controller process may have received it.
  if (!isEnded(pod)) return undefined;
  const { code, cause, hint } = endProblem(pod);
  return isPassing(code) ? new RametError(code, cause, defined({ hint })) : undefined;
}

/**
 * The resume waits, as for its template: the store may come back, and each Pod mounts what the image's name means then. So another one is
 * tried later, and later after each. The status has the time of the first refusal, so the wait doubles if each Pod has as long as those before it.
 */
export function planRefusedResume(state: SandboxState, pod: Pod, error: RametError): SandboxPlan {
  const status = notStartable(state, error.code, problemOf(error));
  const created = new Date(pod.metadata.creationTimestamp).getTime();
  const since = findCondition(status.conditions, "Stalled")?.lastTransitionTime ?? "";
  const wait = Math.max(leastRetryMilliseconds, Math.min(created - Date.parse(since), mostRetryMilliseconds));
  const retryInMilliseconds = created + wait - state.now.getTime();
  if (retryInMilliseconds <= 0) return { actions: [{ do: "deletePod", pod }], status };
  return { actions: [], status, requeueAfterMilliseconds: Math.min(retryInMilliseconds, wait) };
}

const leastRetryMilliseconds = 15_000;
const mostRetryMilliseconds = 600_000;

/** The checkpoint that holds a paused sandbox was deleted. */
export function pauseLost(): RametError {
  return new RametError("CheckpointLost", "The sandbox cannot be resumed: the checkpoint of its pause was deleted", {
    hint: "Delete the Sandbox, and create it again from its template or from another checkpoint",
  });
}

/** The template was changed since the pause: memory needs the earlier one, and files its image. Nothing is lost: the resume waits. */
export function templateChanged(cause: RametError, kept: "memory" | "files"): RametError {
  return new RametError("TemplateMismatch", `The sandbox cannot be resumed with its ${kept}: ${cause.message}`, {
    hint: "Undo the change of its template; for a sandbox of the changed one, create another Sandbox",
    cause,
  });
}
