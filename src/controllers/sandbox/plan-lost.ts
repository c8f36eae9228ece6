import type { DisruptionCause, RametSandboxStatus } from "../../api/kinds/sandbox.ts";
import { type DisruptionPolicy, disruptionPolicyOf } from "../../api/pod/disruption.ts";
import type { Pod } from "../../api/schema/pod.ts";
import { defined } from "../../base/defined.ts";
import { capturedAt, lastAutomatic } from "../cluster/pause-checkpoint.ts";
import { causeOfEnd, disruptionCause, isEnded } from "../cluster/pod-facts.ts";
import { sandboxRef } from "../../backends/runtime.ts";
import type { SandboxAction, SandboxPlan, SandboxState } from "./state.ts";
import { lost, paused } from "./status.ts";

type Disruption = NonNullable<RametSandboxStatus["disruption"]>;

/**
 * Continues a running sandbox whose Pod was lost from its last automatic checkpoint: it becomes Paused, held by that checkpoint, and
 * starts again unless it shall stay paused. The next Pod has the name of the old one, so it is created when no object says that the old
 * one may still run. Undefined: it is not lost, or nothing was saved.
 */
export function planLost(state: SandboxState): SandboxPlan | undefined {
  const loss = lossOf(state);
  if (loss === undefined || loss.policy === "End" || state.stoppedBy !== undefined) return undefined;
  if (loss.attempts > mostAttempts) return { actions: ending(state.pod), status: repeated(state, loss) };
  return planContinued(state, loss);
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
  const cause = underWay === undefined ? causeOfLoss(state) : causeOfUncaptured(underWay, pod);
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

function planContinued(state: SandboxState, { cause, at, policy, attempts, saved }: Loss): SandboxPlan {
  const { sandbox, pod } = state;
  const { name, cutAt } = saved;
  const isRequested = sandbox.spec.paused === true;
  const isKept = policy === "Pause" || isRequested;
  const pause: SandboxAction[] = isKept && !isRequested ? [{ do: "setPaused", shutdownTime: null }] : [];
  const message = `Its Pod was lost (${cause})`;
  const next = isKept ? "it stays paused until it is resumed" : "it continues in another Pod";
  const from = `from the checkpoint ${name} of ${cutAt}; later work is lost`;
  const kept = {
    reason: "CheckpointSucceeded",
    message: `${message}. The checkpoint ${name} has its state of ${cutAt}`,
  };
  const status = paused(state, kept, { message: `${message}, and ${next} ${from}`, ready: message });
  const disruption: Disruption = {
    cause,
    at,
    outcome: isKept ? "Paused" : "Restoring",
    ...defined({ podUID: sandbox.status?.podInfo?.podUID }),
    checkpoint: name,
    savedAt: cutAt,
    attempts,
  };
  const note = `${message}; ${next} ${from}`;
  return {
    actions: [...pause, ...(pod === undefined ? stopUnseen(state) : ending(pod))],
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

/** A node that is silent until its Pod is removed was lost, whatever has begun the end of the Pod. */
function causeOfUncaptured({ cause }: Disruption, pod: Pod | undefined): Disruption["cause"] {
  return pod === undefined && cause === ("NodeTaint" satisfies DisruptionCause) ? "NodeLost" : cause;
}

/** What the status has of a Pod that is gone. */
function formerPod({ sandbox: { metadata, status } }: SandboxState): Pod["metadata"] {
  return { ...metadata, annotations: status?.podInfo?.annotations };
}

function ending(pod: Pod | undefined): SandboxAction[] {
  return pod === undefined || isEnded(pod) ? [] : [{ do: "intendEnd", pod }];
}

/** A Pod that was removed without its node's word may still run there: its cell is told to stop as soon as it can be reached. */
function stopUnseen({ sandbox }: SandboxState): SandboxAction[] {
  const target = sandboxRef(sandbox);
  return target.cellKey === undefined || target.podIp === "" ? [] : [{ do: "stopUnseen", target }];
}
