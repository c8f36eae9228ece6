import type { DisruptionCause, RametSandboxStatus, Sandbox, SandboxStatus } from "../../api/kinds/sandbox.ts";
import { type DisruptionPolicy, disruptionPolicyOf } from "../../api/pod/disruption.ts";
import type { Pod } from "../../api/schema/pod.ts";
import type { Problem } from "../../api/schema/problem.ts";
import { isCloneable } from "../../api/state/checkpoint.ts";
import { hasHardEnd } from "../../api/state/sandbox.ts";
import { defined } from "../../base/defined.ts";
import { findCondition } from "../../kube/conditions.ts";
import { soonest } from "../../kube/controller.ts";
import { priorityOf } from "../cluster/move-facts.ts";
import { capturedAt, lastAutomatic } from "../cluster/pause-checkpoint.ts";
import {
  causeOfEnd,
  causeOfUncaptured,
  disruptionCause,
  exceededStorage,
  isEnded,
  isEndedUnseen,
} from "../cluster/pod-facts.ts";
import { type SandboxRef, sandboxRef } from "../../backends/runtime.ts";
import type { SandboxAction, SandboxPlan, SandboxState } from "./state.ts";
import { lost, paused } from "./status.ts";

type Disruption = NonNullable<RametSandboxStatus["disruption"]>;

/**
 * Continues a running sandbox whose Pod was lost from its last automatic checkpoint: it becomes Paused, held by that checkpoint, and
 * starts again unless it shall stay paused. The next Pod has the name of the old one, so it is created when no object says that the old
 * one may still run. Undefined: it is not lost, or nothing was saved.
 * @param unsaved why it was not captured when its Pod was ended
 */
export function planLost(state: SandboxState, unsaved?: Problem): SandboxPlan | undefined {
  const loss = lossOf(state);
  if (loss === undefined || loss.policy === "End" || state.stoppedBy !== undefined) return undefined;
  if (loss.attempts > mostAttempts) return { actions: ending(state.pod), status: repeated(state, loss) };
  return planContinued(state, loss, unsaved);
}

/** The checkpoint is the only copy, so no timer deletes it but that of the hard end of the sandbox. */
export function pauseWithoutTimers(sandbox: Sandbox): SandboxAction {
  return { do: "setPaused", ...(!hasHardEnd(sandbox) && { shutdownTime: null }) };
}

interface Loss extends Pick<Disruption, "cause" | "at"> {
  policy: DisruptionPolicy;
  attempts: number;
  saved: { name: string; checkpointId: string; cutAt: string };
}

/** Undefined: the sandbox is not lost, or nothing was saved. */
function lossOf(state: SandboxState): Loss | undefined {
  const { sandbox, pod, automatic = [], now } = state;
  const underWay = captureUnderWay(state);
  const cause = underWay === undefined ? causeOfLoss(state) : causeOfUncaptured(underWay.cause, pod);
  const last = lastAutomatic(sandbox, automatic);
  if (cause === undefined || last === undefined) return undefined;
  const { name } = last.metadata;
  const saved = {
    name,
    checkpointId: last.status?.checkpointId ?? name,
    cutAt: new Date(capturedAt(last)).toISOString(),
  };
  return {
    cause,
    at: underWay?.at ?? now.toISOString(),
    policy: disruptionPolicyOf({ metadata: pod?.metadata ?? formerPod(state) }),
    attempts: attemptsOf(state, { cause, name }),
    saved,
  };
}

function planContinued(
  state: SandboxState,
  { cause, at, policy, attempts, saved }: Loss,
  unsaved: Problem | undefined,
): SandboxPlan {
  const { sandbox, pod } = state;
  const { name, cutAt } = saved;
  const isRequested = sandbox.spec.paused === true;
  const isKept = policy === "Pause" || isRequested;
  const pause = isKept && !isRequested ? [pauseWithoutTimers(sandbox)] : [];
  const problem = (pod && exceededStorage(pod)) ?? unsaved;
  const message = `Its Pod was lost (${cause})`;
  const next = isKept ? "it stays paused until it is resumed" : "it continues in another Pod";
  const from = `from the checkpoint ${name} of ${cutAt}; later work is lost`;
  const why = problem === undefined ? "" : `. ${problem.cause}`;
  const kept = {
    reason: "CheckpointSucceeded",
    message: `${message}. The checkpoint ${name} has its state of ${cutAt}`,
  };
  const status = paused(state, kept, { message: `${message}, and ${next} ${from}${why}`, ready: message });
  const disruption: Disruption = {
    cause,
    at,
    outcome: isKept ? "Paused" : "Restoring",
    ...defined({ podUID: sandbox.status?.podInfo?.podUID, priority: priorityOf(pod) }),
    checkpoint: name,
    savedAt: cutAt,
    attempts,
    ...defined({ problem }),
  };
  const note = `${message}; ${next} ${from}${why}`;
  return {
    actions: [...pause, ...ending(pod)],
    status: { ...status, ramet: { ...status.ramet, disruption } },
    transitions: [{ type: "Warning", reason: "SandboxDisrupted", action: "Restore", note }],
  };
}

/** How often a sandbox continues if it is lost again soon. */
const mostAttempts = 3;
const soonMilliseconds = 60_000;

/** One whose cell dies again may do so because of what the checkpoint has, however long that takes. */
function attemptsOf({ sandbox, now }: SandboxState, { cause, name }: { cause: string; name: string }): number {
  const { outcome, endedAt = "", checkpoint, attempts = 1 } = sandbox.status?.ramet?.disruption ?? {};
  if (outcome !== "Restored") return 1;
  const isSoon = now.getTime() - Date.parse(endedAt) < soonMilliseconds;
  const isSame = checkpoint === name && cause === ("CellDied" satisfies DisruptionCause);
  return isSoon || isSame ? attempts + 1 : 1;
}

function repeated(state: SandboxState, { cause, saved: { name, checkpointId } }: Loss) {
  const { metadata } = state.sandbox;
  const why = `Its Pod was lost again (${cause}) after it had continued ${mostAttempts} times from an automatic checkpoint`;
  const hint = `Find out why with kubectl describe pod and kubectl logs; then try it again with: ramet rollback ${metadata.name} ${checkpointId} -n ${metadata.namespace}`;
  return lost(state, `${why}. The checkpoint ${name} is kept`, hint);
}

/** The disruption that has begun, and did not end with a capture. The program may have ended because it was asked to. */
function captureUnderWay({ sandbox: { status } }: SandboxState): Disruption | undefined {
  const disruption = status?.ramet?.disruption;
  const isUnderWay = disruption?.outcome === "Migrating" || disruption?.outcome === "Pausing";
  return isUnderWay && disruption.podUID === status?.podInfo?.podUID ? disruption : undefined;
}

/** What has ended the Pod, if not its program. Undefined: it runs, or its own end is to be reported. */
function causeOfLoss({ sandbox, pod }: SandboxState): Disruption["cause"] | undefined {
  const recorded = sandbox.status?.podInfo?.podUID;
  if (pod !== undefined && pod.metadata.uid === (recorded ?? pod.metadata.uid)) {
    if (isEnded(pod)) return causeOfEnd(pod);
    return pod.metadata.deletionTimestamp === undefined ? undefined : disruptionCause(pod);
  }
  return disruptionCause(undefined);
}

/** What the status has of a Pod that is gone. */
function formerPod({ sandbox: { metadata, status } }: SandboxState): Pod["metadata"] {
  return { ...metadata, annotations: status?.podInfo?.annotations };
}

function ending(pod: Pod | undefined): SandboxAction[] {
  return pod === undefined || isEnded(pod) ? [] : [{ do: "intendEnd", pod }];
}

/** A node that is back for longer has ended what the API server does not list. */
export const removedMilliseconds = 600_000;
/** A call that has failed otherwise than without an answer is repeated after that. */
const repeatMilliseconds = 30_000;
/** A sandbox that is lost more often has just been lost for another reason. */
const mostRemoved = 5;

/**
 * Has the cells of Pods that were removed without the word of their nodes stopped as soon as they respond. The status says which, so any
 * controllers do that. The next Pod is created afterwards, because nothing else would show them then. It does not wait until they have
 * stopped: only that nobody routes to them is certain.
 */
export function withRemovedPods(state: SandboxState, plan: SandboxPlan): SandboxPlan {
  const { sandbox, now, removedStopped } = state;
  const { status = sandbox.status ?? {} } = plan;
  const { removedPods: before = [], ...all } = status.ramet ?? {};
  const { startingPod: _, ...started } = all;
  const lost = [...removedNow(state, status), ...removedBefore(state, plan)];
  const isNew = ({ podUID }: RemovedPod) => !before.some((one) => one.podUID === podUID);
  const added = lost.filter(isNew);
  const known = [...before, ...added].slice(-mostRemoved);
  const ramet = lost.length > 0 ? started : all;
  if (known.length === 0) return plan;
  const endsAt = ({ at }: RemovedPod) => Date.parse(at) + removedMilliseconds;
  const isStopped = ({ podUID }: RemovedPod) => removedStopped?.has(podUID) === true;
  const kept = known.filter((one) => endsAt(one) > now.getTime() && !isStopped(one));
  const over = known.filter((one) => !kept.includes(one));
  const left = Math.min(repeatMilliseconds, ...kept.map((one) => endsAt(one) - now.getTime()));
  const isChanged = added.length > 0 || kept.length !== before.length;
  return {
    ...plan,
    actions: [
      ...plan.actions.filter((action) => added.length === 0 || action.do !== "createPod"),
      ...kept.map((one) => ({ do: "stopUnseen", target: targetOf(sandbox, one) }) as const),
      ...over.map(({ podUID }) => ({ do: "forgetUnseen", podUid: podUID }) as const),
    ],
    ...(isChanged && {
      status: { ...status, ramet: { ...ramet, ...(kept.length > 0 && { removedPods: kept }) } },
    }),
    ...soonest(plan.requeueAfterMilliseconds, kept.length > 0 ? left : undefined),
  };
}

type RemovedPod = NonNullable<RametSandboxStatus["removedPods"]>[number];

/** The Pod that the sandbox loses now, if it may still run and its cell can prove itself. */
function removedNow(state: SandboxState, status: SandboxStatus): RemovedPod[] {
  const { sandbox, now } = state;
  const { podIp, podUid, cellKey } = sandboxRef(sandbox);
  const isLost = sandbox.status?.phase === "Running" && (status.phase === "Failed" || isRestored(status, podUid));
  if (!isLost || !mayRun(state, status) || podUid === undefined || cellKey === undefined || podIp === "") return [];
  return [{ podUID: podUid, podIP: podIp, cellKey, at: now.toISOString() }];
}

/**
 * The Pods of earlier starts, pauses and rollbacks that are gone without the word of their nodes: added before the next one is created,
 * and when a pause completes.
 */
function removedBefore(
  { sandbox, formerCells = [], now }: SandboxState,
  { actions, status }: SandboxPlan,
): RemovedPod[] {
  const isComplete = ({ status: own }: Pick<Sandbox, "status">) =>
    findCondition(own?.conditions, "SandboxPaused")?.status === "True";
  const { phase } = sandbox.status ?? {};
  const isPaused = phase === "Paused" && !isComplete(sandbox) && status !== undefined && isComplete({ status });
  const isReplaced = phase !== "Running" && actions.some((action) => action.do === "createPod");
  return isPaused || isReplaced ? formerCells.map((cell) => ({ ...cell, at: now.toISOString() })) : [];
}

function isRestored({ phase, ramet }: SandboxStatus, podUid: string | undefined): boolean {
  const { podUID, checkpoint } = ramet?.disruption ?? {};
  return phase === "Paused" && checkpoint !== undefined && podUID === podUid;
}

/** Not what a capture has left paused, and not what its node has ended. One that fails with its Pod has its grace period. */
function mayRun({ sandbox, pod, pauseCheckpoint, stoppedBy }: SandboxState, { phase }: SandboxStatus): boolean {
  const isCaptured = pauseCheckpoint !== undefined && isCloneable(pauseCheckpoint);
  if (isCaptured || stoppedBy !== undefined) return false;
  if (pod === undefined || pod.metadata.uid !== sandbox.status?.podInfo?.podUID || isEndedUnseen(pod)) return true;
  return phase === "Paused" && !isEnded(pod);
}

function targetOf({ metadata }: SandboxState["sandbox"], { podUID, podIP, cellKey }: RemovedPod): SandboxRef {
  const { namespace, name, uid } = metadata;
  return { namespace, name, uid, podIp: podIP, podUid: podUID, cellKey, claims: [] };
}
