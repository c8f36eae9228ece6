import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import type { DisruptionCause, RametSandboxStatus, Sandbox } from "../../api/kinds/sandbox.ts";
import { disruptionPolicyOf } from "../../api/pod/disruption.ts";
import type { Pod } from "../../api/schema/pod.ts";
import type { Problem } from "../../api/schema/problem.ts";
import { captureProgress, checkpointState } from "../../api/state/checkpoint.ts";
import { isUrgent } from "../../api/state/node.ts";
import { printProblem, problemIn, problemOf, within } from "../../api/state/problem.ts";
import { defined } from "../../base/defined.ts";
import { soonest } from "../../kube/controller.ts";
import type { Transition } from "../../kube/events.ts";
import type { ErrorCode } from "../../base/error-codes.ts";
import type { RametError } from "../../base/errors.ts";
import type { Departure } from "../cluster/departures.ts";
import { priorityOf } from "../cluster/move-facts.ts";
import { disruptionCheckpointName, isSavedFrom, isUnderWay } from "../cluster/pause-checkpoint.ts";
import { causeOfUncaptured, cellRuns, disruptionCause, isDisrupted, isEnded } from "../cluster/pod-facts.ts";
import { pauseWithoutTimers, planLost, withRemovedPods } from "./plan-lost.ts";
import { contentsOfPause, type SandboxAction, type SandboxPlan, type SandboxState } from "./state.ts";
import { changed, ended, lost, notPaused, paused } from "./status.ts";

type Disruption = NonNullable<RametSandboxStatus["disruption"]>;

/**
 * Saves a running sandbox whose Pod others end: it is captured as for a pause while its cell holds the end, then paused, and resumed
 * unless it shall stay paused. The next Pod has the name of the old one, so two copies never run. Undefined: nobody ends the Pod, or
 * nothing is saved.
 */
export function planDisruption(state: SandboxState): SandboxPlan | undefined {
  const { pauseCheckpoint: checkpoint, pod, stoppedBy } = state;
  const disruption = disruptionUnderWay(state);
  if (disruption === undefined || stoppedBy !== undefined) return undefined;
  const plan = checkpoint && planCapture(state, disruption, checkpoint);
  if (plan !== undefined) return plan;
  if (pod !== undefined && !isEnded(pod)) return begin(state, disruption);
  // Unless a capture has failed, its end says more than the disruption.
  const isOwnEnd = causeOfUncaptured(disruption.cause, pod) === undefined;
  return disruption.problem === undefined || isOwnEnd ? undefined : unsaved(state, disruption, disruption.problem);
}

/** Undefined: the checkpoint is that of an earlier pause, or is being deleted. */
function planCapture(state: SandboxState, disruption: Disruption, checkpoint: Checkpoint): SandboxPlan | undefined {
  const is = checkpointState(checkpoint);
  if (is === "succeeded") return captured(state, disruption, checkpoint);
  if (is === "unfinished") return capturing(state, disruption, checkpoint);
  const isOwn = checkpoint.metadata.name === disruptionCheckpointName(state.sandbox);
  return is === "failed" && isOwn ? notCaptured(state, disruption, checkpoint) : undefined;
}

/** The recorded disruption of the current Pod, or one that begins now. */
function disruptionUnderWay(state: SandboxState): Disruption | undefined {
  const { pod, now } = state;
  const { podInfo, ramet } = state.sandbox.status ?? {};
  const recorded = ramet?.disruption;
  if (recorded !== undefined && recorded.podUID === podInfo?.podUID && isUnderWay(recorded)) return recorded;
  const cause = pod && beginning(state, pod);
  if (pod === undefined || cause === undefined) return undefined;
  const outcome = disruptionPolicyOf(pod) === "Pause" ? "Pausing" : "Migrating";
  const { nodeName } = pod.spec;
  const { uid: podUID } = pod.metadata;
  const begun = { cause, at: now.toISOString(), outcome, podUID, ...defined({ nodeName, priority: priorityOf(pod) }) };
  return { ...begun, ...failuresBefore(recorded, begun) };
}

/** A cause that leaves little time starts with short pauses again. */
function failuresBefore(before: Disruption | undefined, { cause, podUID }: Disruption): Pick<Disruption, "failures"> {
  if (before === undefined || before.podUID !== podUID) return {};
  return before.cause !== cause && isUrgent(cause) ? {} : defined({ failures: before.failures });
}

/** Why a disruption begins now: others end the Pod, or its node leaves and it is the sandbox's turn. */
function beginning(state: SandboxState, pod: Pod): DisruptionCause | undefined {
  const { sandbox, departure } = state;
  const { uid } = pod.metadata;
  const isCurrent = uid === (sandbox.status?.podInfo?.podUID ?? uid);
  if (!isCurrent || isEnded(pod) || !isSavedFrom(sandbox, pod)) return undefined;
  if (isDisrupted(pod) && !isIgnored(sandbox, pod)) return disruptionCause(pod);
  // A rollback that is pending comes first: the capture would make it fail.
  return departure?.turn === "now" && state.rollback === undefined ? departure.cause : undefined;
}

/** Its capture has failed, and nobody deletes the Pod: it is only repeated if its node leaves. */
export function isIgnored({ status }: Sandbox, { metadata }: Pod): boolean {
  const { outcome, podUID } = status?.ramet?.disruption ?? {};
  return outcome === "Withdrawn" && podUID === metadata.uid && metadata.deletionTimestamp === undefined;
}

function begin(state: SandboxState, disruption: Disruption): SandboxPlan {
  if (state.restoreInPlace?.state === "running")
    return { actions: [], status: held(state, disruption, "The capture waits for the rollback, which is being done") };
  const { sandbox, pauseCheckpoint: earlier } = state;
  const why = whyCaptured(state, disruption);
  const note = `${why} (${disruption.cause}); the sandbox is captured to continue from there`;
  return {
    actions: [
      { do: "createPauseCheckpoint", persistentContents: contentsOfPause(state), isOfDisruption: true },
      ...(earlier === undefined ? [] : [{ do: "deleteCheckpoint", checkpoint: earlier } as const]),
    ],
    status: held(state, disruption, `A checkpoint is being taken. ${why}`),
    ...(disruption.podUID !== sandbox.status?.ramet?.disruption?.podUID && {
      transitions: [{ type: "Warning", reason: "SandboxDisrupted", action: "Capture", note }],
    }),
  };
}

function capturing(state: SandboxState, disruption: Disruption, checkpoint: Checkpoint): SandboxPlan {
  const { name } = checkpoint.metadata;
  const message = `The checkpoint ${name} ${captureProgress(checkpoint)}. ${whyCaptured(state, disruption)}`;
  return { actions: [], status: held(state, disruption, message) };
}

function whyCaptured({ pod }: SandboxState, disruption: Disruption): string {
  return isAhead(pod, disruption) ? "Its node is leaving" : "Its Pod is being ended";
}

function isAhead(pod: Pod | undefined, { cause }: Disruption): boolean {
  return pod !== undefined && pod.metadata.deletionTimestamp === undefined && aheadCauses.has(cause);
}

const aheadCauses: ReadonlySet<string> = new Set<DisruptionCause>([
  "NodeCordoned",
  "NodeLeaving",
  "NodeReclaimed",
  "NodeShutdown",
  "NodeTaint",
]);

/** The sandbox still responds. */
function held(state: SandboxState, disruption: Disruption, message: string) {
  return withDisruption(notPaused(state, { reason: "CheckpointCreating", message }), disruption);
}

function captured(state: SandboxState, disruption: Disruption, checkpoint: Checkpoint): SandboxPlan {
  const { sandbox } = state;
  const isKept = disruption.outcome === "Pausing" || sandbox.spec.paused === true;
  const pause = isKept && sandbox.spec.paused !== true ? [pauseWithoutTimers(sandbox)] : [];
  const kept = `The checkpoint ${checkpoint.metadata.name} has the sandbox's state`;
  const message = `Its Pod was ended (${disruption.cause})`;
  const next = isKept ? "it stays paused until it is resumed" : "it continues in another Pod";
  const pauseOf = { reason: "CheckpointSucceeded", message: `${message}. ${kept}` };
  const status = paused(state, pauseOf, { message: `${message}, and ${next}`, ready: message });
  const outcome = isKept ? "Paused" : "Migrating";
  const { problem: _, ...begun } = disruption;
  const savedAt = checkpoint.status?.ramet?.cutAt;
  return { actions: pause, status: withDisruption(status, { ...begun, outcome, ...defined({ savedAt }) }) };
}

/**
 * The checkpoint has failed. It is taken again if that may help before the Pod ends; a sandbox whose Pod nobody deletes runs on. Else
 * nothing holds the end of the sandbox any more.
 */
function notCaptured(state: SandboxState, disruption: Disruption, checkpoint: Checkpoint): SandboxPlan {
  const { pod } = state;
  const isOwnEnd = pod?.status?.phase === "Succeeded" || causeOfUncaptured(disruption.cause, pod) === undefined;
  if (pod !== undefined && isOwnEnd) return planLost(state) ?? { actions: [], status: ended(state, pod) };
  const failed = (the: string) => within(problemOfCapture(checkpoint), `${the} ${checkpoint.metadata.name} failed`);
  const why = failed("the checkpoint");
  if (pod !== undefined && !isEnded(pod)) {
    if (pod.metadata.deletionTimestamp === undefined)
      return withdrawn(state, disruption, { checkpoint, why: failed("The checkpoint") });
    if (passing.has(why.code)) return again(state, disruption, { checkpoint, pod, why });
  }
  return unsaved(state, disruption, reasonOf(disruption, why));
}

/** The end of the Pod also ends the last capture, so an earlier failure says more. */
function reasonOf({ problem }: Disruption, why: Problem): Problem {
  return ofEnd.has(why.code) ? (problem ?? why) : why;
}

function problemOfCapture({ status }: Checkpoint): Problem {
  return problemIn(status) ?? { code: "CheckpointFailed", cause: status?.message ?? "no reason given" };
}

function unsaved(state: SandboxState, { cause }: Disruption, why: Problem): SandboxPlan {
  const continued = planLost(state, within(why, "Its state could not be saved"));
  if (continued !== undefined) return continued;
  const what = `Its Pod was ended (${cause}), and its state could not be saved`;
  return { actions: intendedEnd(state.pod), status: lost(state, within(why, what).cause) };
}

/** What may be over when the capture is repeated: a failed call, and what ails a store or a machine that others use too. */
const passing: ReadonlySet<string> = new Set<ErrorCode>([
  "SandboxNotReady",
  "Conflict",
  "Unavailable",
  "Timeout",
  "StoreUnavailable",
  "StoreReadOnly",
  "StoreFull",
  "GrantInvalid",
  "CaptureRefused",
  "EngineFailed",
  "GuestUnreachable",
]);

const ofEnd: ReadonlySet<string> = new Set<ErrorCode>(["SandboxNotReady", "SandboxLost", "Unavailable", "Canceled"]);

interface FailedCapture {
  checkpoint: Checkpoint;
  pod: Pod;
  why: Problem;
}

/** The next checkpoint has the name of the failed one, so it is taken when that one is gone. The Pod's end is the limit. */
function again(state: SandboxState, disruption: Disruption, { checkpoint, pod, why }: FailedCapture): SandboxPlan {
  const endedAt = Date.parse(checkpoint.status?.completionTime ?? checkpoint.metadata.creationTimestamp);
  const pause = state.isNodeSilent === true ? silentMilliseconds : pauseAfter(endedAt, pod);
  const leftMilliseconds = endedAt + pause - state.now.getTime();
  const status = held(state, { ...disruption, problem: why }, `The capture is repeated: ${why.cause}`);
  if (leftMilliseconds > 0) return { actions: [], status, requeueAfterMilliseconds: leftMilliseconds };
  return { actions: [{ do: "deleteCheckpoint", checkpoint }], status };
}

/** Longer after a while, because each capture pauses the sandbox and writes its memory. */
function pauseAfter(
  endedAt: number,
  { metadata: { deletionTimestamp = "", deletionGracePeriodSeconds } }: Pod,
): number {
  const sinceDeletion = endedAt - Date.parse(deletionTimestamp) + (deletionGracePeriodSeconds ?? 0) * 1_000;
  return Math.min(Math.max(sinceDeletion / 4, leastAgainMilliseconds), mostAgainMilliseconds);
}

/** Its cell may respond nevertheless. When the node is back, the sandbox is planned again, and held for as long as before. */
const silentMilliseconds = 300_000;
const leastAgainMilliseconds = 1_000;
const mostAgainMilliseconds = 10_000;

/**
 * It runs on. A capture ahead of the end of its Pod is repeated after growing pauses, any other one when somebody deletes the Pod or its
 * node leaves.
 */
function withdrawn(
  state: SandboxState,
  disruption: Disruption,
  { checkpoint, why }: { checkpoint?: Checkpoint; why: Problem },
): SandboxPlan {
  const { sandbox, pod, now } = state;
  const failures = (disruption.failures ?? 0) + 1;
  const first = isUrgent(disruption.cause) ? 1_000 : 60_000;
  const pause = Math.min(longestPauseMilliseconds, first * 2 ** Math.min(failures - 1, 10));
  const isRepeated = isAhead(pod, disruption) || (pod !== undefined && !isDisrupted(pod));
  const problem = { ...why, ...(isRepeated && { retryAt: new Date(now.getTime() + pause).toISOString() }) };
  const again = isRepeated
    ? `is repeated after ${pause < 60_000 ? `${pause / 1_000} s` : `${pause / 60_000} min`}, if its node still leaves`
    : "is repeated if its Pod is deleted or its node leaves";
  const message = sandbox.status?.message ?? "";
  const status = changed(state, "Running", { message, drop: ["SandboxPaused"] });
  const endedAt = now.toISOString();
  const note = `${printProblem(problem)}. The sandbox runs on, and the capture ${again}`;
  return {
    actions: checkpoint === undefined ? [] : [{ do: "deleteCheckpoint", checkpoint }],
    status: withDisruption(status, { ...disruption, outcome: "Withdrawn", endedAt, failures, problem }),
    transitions: [{ type: "Warning", reason: "CheckpointFailed", action: "Capture", note }],
  };
}

const longestPauseMilliseconds = 600_000;

/** Reports that no other node takes a running sandbox whose node leaves, until one does or the node stays. */
export function withDeparture(state: SandboxState, plan: SandboxPlan): SandboxPlan {
  const { departure, sandbox } = state;
  const { status = sandbox.status ?? {} } = plan;
  const { noTarget: before, ...ramet } = status.ramet ?? {};
  if (status.phase !== "Running" || isUnderWay(ramet.disruption) || departure === undefined)
    return before === undefined ? plan : { ...plan, status: { ...status, ramet } };
  const again = { ...plan, ...soonest(plan.requeueAfterMilliseconds, departureMilliseconds) };
  const noTarget = noTargetOf(departure, before?.at ?? state.now.toISOString());
  if (noTarget === undefined) return again;
  const reported = { ...again, status: { ...status, ramet: { ...ramet, noTarget } } };
  return before === undefined ? withEvent(reported, stuck(departure)) : reported;
}

function noTargetOf(departure: Departure, at: string): RametSandboxStatus["noTarget"] {
  const { cause } = departure;
  return departure.turn === "noTarget" && cause !== undefined ? { cause, at, message: departure.message } : undefined;
}

function withEvent(plan: SandboxPlan, transition: Transition): SandboxPlan {
  return { ...plan, transitions: [...(plan.transitions ?? []), transition] };
}

function stuck(departure: Departure): Transition {
  const why = departure.turn === "noTarget" ? departure.message : "";
  const note = `Its node is leaving: ${departure.mark}. No other node takes it, so it runs until its Pod is ended. ${why}`;
  return { type: "Warning", reason: "NoTarget", action: "Capture", note };
}

/** For a turn that no event announces. */
const departureMilliseconds = 30_000;

/**
 * For a checkpoint of a disruption that cannot be created, as in a namespace that is being deleted or has too many. A sandbox whose Pod
 * nobody deletes runs on. Undefined: it is repeated.
 */
export function planUnsaved(state: SandboxState, plan: SandboxPlan, error: RametError): SandboxPlan | undefined {
  const isRefused = error.code === "Forbidden" || error.code === "InvalidArgument";
  const isOfDisruption = plan.actions.some((one) => one.do === "createPauseCheckpoint" && one.isOfDisruption === true);
  const { pod } = state;
  if (!isRefused || !isOfDisruption || pod === undefined) return undefined;
  const begun = plan.status?.ramet?.disruption;
  if (pod.metadata.deletionTimestamp === undefined)
    return begun && withdrawn(state, begun, { why: within(problemOf(error), "The checkpoint cannot be created") });
  const continued = planLost(state);
  if (continued !== undefined) return withRemovedPods(state, continued);
  const what = "Its Pod was ended, and its state could not be saved: the checkpoint cannot be created";
  const status = lost(
    { ...state, sandbox: { ...state.sandbox, ...defined({ status: plan.status }) } },
    `${what}: ${error.message}`,
  );
  return { actions: intendedEnd(pod), status, ...defined({ transitions: plan.transitions }) };
}

/** What makes the cell end its sandbox as soon as its Pod ends. */
export function intendedEnd(pod: Pod | undefined): Extract<SandboxAction, { do: "intendEnd" }>[] {
  const isHeld = pod !== undefined && disruptionPolicyOf(pod) !== "End" && cellRuns(pod);
  return isHeld ? [{ do: "intendEnd", pod }] : [];
}

function withDisruption<S extends { ramet?: RametSandboxStatus | undefined }>(status: S, disruption: Disruption): S {
  return { ...status, ramet: { ...status.ramet, disruption } };
}
