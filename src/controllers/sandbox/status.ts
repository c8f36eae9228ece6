import { engineId } from "../../api/engine/engine.ts";
import { parsedJson } from "../../base/tolerant-parse.ts";
import * as z from "zod";
import { defined } from "../../base/defined.ts";
import type { RametError } from "../../base/errors.ts";
import { skippedRuntime } from "../../api/pod/agent-runtime.ts";
import { annotations, labels } from "../../api/names/labels.ts";
import { isPodReady, type Pod } from "../../api/schema/pod.ts";
import type { RametSandboxStatus, SandboxConditionType, SandboxPhase, SandboxStatus } from "../../api/kinds/sandbox.ts";
import type { Problem } from "../../api/schema/problem.ts";
import { printProblem, problemOf, sentenceOf } from "../../api/state/problem.ts";
import { type ConditionChange as AnyConditionChange, findCondition, report, stalled } from "../../kube/conditions.ts";
import {
  causeOfUncaptured,
  declaresReadiness,
  disruptionCause,
  endProblem,
  isEndedByNode,
  unreadyMessage,
} from "../cluster/pod-facts.ts";
import { lastingClaims } from "./gather-volumes.ts";
import type { SandboxPlan, SandboxState, StartOutcome } from "./state.ts";

export type ConditionChange = AnyConditionChange<SandboxConditionType>;

/** The current status with another phase and conditions. The old message is replaced or removed. `Stalled` ends with a change of `Ready`. */
export function changed(
  { sandbox, now }: Pick<SandboxState, "sandbox" | "now">,
  phase: NonNullable<SandboxStatus["phase"]>,
  { message, conditions = [], drop = [] }: { message?: string; conditions?: ConditionChange[]; drop?: string[] },
): SandboxStatus {
  const { message: _, ...before } = sandbox.status ?? {};
  const isAnswered = drop.includes("Ready") || conditions.some(({ type }) => type === "Ready");
  return {
    ...report(before, conditions, { now, drop: isAnswered ? [...drop, "Stalled"] : drop }),
    phase,
    ...(message !== undefined && message !== "" && { message }),
  };
}

/** Adds conditions to the status of a plan, or to the current one, whose phase and message stay. */
export function amended(
  { sandbox, now }: Pick<SandboxState, "sandbox" | "now">,
  plan: SandboxPlan,
  { conditions, drop = [] }: { conditions: ConditionChange[]; drop?: string[] },
): SandboxPlan & { status: SandboxStatus } {
  const status = plan.status ?? sandbox.status ?? {};
  const { phase = "Pending", message = "" } = status;
  const current = { ...sandbox, status };
  return { ...plan, status: changed({ sandbox: current, now }, phase, { message, conditions, drop }) };
}

/** For a permanent error: the phase is Failed, and the reason is the error's code. */
export function failed(state: SandboxState, error: RametError): SandboxStatus {
  return final(state, "Failed", { message: error.describe(), problem: problemOf(error) });
}

/** For a Pod that was deleted by someone other than this controller. @param cause what else has failed */
export function lost(
  state: SandboxState,
  cause = "Pod Not Found: the sandbox's Pod was deleted, and its memory and files are lost",
  hint = "Delete the Sandbox, and create it again from its template or from a checkpoint",
): SandboxStatus {
  const problem: Problem = {
    code: "SandboxLost",
    cause,
    hint,
  };
  const status = final(state, "Failed", { message: sentenceOf(problem), problem });
  return withLoss(state, status);
}

function withLoss({ sandbox, pod, now }: SandboxState, status: SandboxStatus): SandboxStatus {
  const podUID = pod?.metadata.uid ?? sandbox.status?.podInfo?.podUID;
  const known = sandbox.status?.ramet?.disruption;
  const noticed = { cause: disruptionCause(pod), at: now.toISOString(), ...defined({ podUID }) };
  const disruption = { ...(known?.podUID === podUID && known !== undefined ? known : noticed), outcome: "Lost" };
  return { ...status, ramet: { ...status.ramet, disruption } };
}

/** For a running sandbox whose pause is under way or has failed. */
export function notPaused(
  state: SandboxState,
  pause: Pick<ConditionChange, "reason" | "message" | "problem">,
): SandboxStatus {
  const message = state.sandbox.status?.message ?? "";
  return changed(state, "Running", { message, conditions: [{ type: "SandboxPaused", status: "False", ...pause }] });
}

/** For a sandbox whose Pod is to go. @param why what others have done to it, if nobody has requested a pause */
export function paused(
  state: SandboxState,
  pause: Pick<ConditionChange, "reason" | "message">,
  why?: { message: string; ready: string },
): SandboxStatus {
  return changed(state, "Paused", {
    ...defined({ message: why?.message }),
    conditions: [
      { type: "SandboxPaused", status: "False", ...pause },
      { type: "Ready", status: "False", reason: "SandboxNotReady", message: why?.ready ?? "The sandbox is paused" },
    ],
    drop: ["SandboxResumed", "MemoryLoaded"],
  });
}

/** For a Pod that has ended, successfully or not. */
export function ended(state: SandboxState, pod: Pod): SandboxStatus {
  const phase = pod.status?.phase === "Succeeded" ? "Succeeded" : "Failed";
  const problem = endProblem(pod);
  const { stoppedBy: name } = state;
  const object = name === undefined ? {} : { object: { kind: "Checkpoint", name } };
  const status = final(state, phase, { message: sentenceOf(problem), problem: { ...problem, ...object } });
  // An eviction by the node and its shutdown end a Pod before anybody can capture it.
  const isLost = phase === "Failed" && state.sandbox.status?.phase === "Running" && isEndedByNode(pod);
  return isLost ? withLoss(state, status) : status;
}

/** Nothing is under way in a sandbox that has ended. */
function final(
  state: SandboxState,
  phase: "Succeeded" | "Failed",
  { message: what, problem: why }: { message: string; problem: Problem },
): SandboxStatus {
  const way = phase === "Failed" ? wayBack(state) : undefined;
  const kept = { cause: "The checkpoint of its pause is kept", hint: way };
  const message = way === undefined ? what : `${what}. ${sentenceOf(kept)}`;
  const problem = way === undefined ? why : { ...why, hint: way };
  const status = changed(state, phase, {
    message,
    conditions: [...stalled(message, problem), ...interrupted(state, message, problem)],
    drop: loading(state),
  });
  const outcome = state.sandbox.status?.phase === "Resuming" ? "Failed" : "Lost";
  const disruption = settled(status, { Migrating: outcome, Pausing: outcome, Restoring: outcome });
  if (disruption === undefined) return status;
  const { disruption: before, ...ramet } = status.ramet ?? {};
  const isKept = !isOwnEnd(state, phase, disruption) || disruption.outcome === before?.outcome;
  return { ...status, ramet: { ...ramet, ...(isKept && { disruption }) } };
}

/** A program that has exited meanwhile was not disrupted. */
function isOwnEnd(
  { sandbox, pod }: SandboxState,
  phase: "Succeeded" | "Failed",
  { cause }: { cause: string },
): boolean {
  const wasRunning = sandbox.status?.phase === "Running";
  return phase === "Succeeded" || (wasRunning && causeOfUncaptured(cause, pod) === undefined);
}

/** The disruption of a sandbox with another outcome, if that of the present one is over. */
function settled({ ramet }: SandboxStatus, outcomes: Partial<Record<string, string>>) {
  const before = ramet?.disruption;
  return before && { ...before, outcome: outcomes[before.outcome] ?? before.outcome };
}

/** The hint that names the checkpoint of the pause, if the resume failed. */
function wayBack({ sandbox, pauseCheckpoint }: SandboxState): string | undefined {
  const id = pauseCheckpoint?.status?.checkpointId;
  if (sandbox.status?.phase !== "Resuming" || id === undefined) return undefined;
  const { namespace, name } = sandbox.metadata;
  return `Try it again with: ramet rollback ${name} ${id} -n ${namespace}`;
}

/** A pause that was under way has failed with the sandbox. */
function interrupted({ sandbox }: Pick<SandboxState, "sandbox">, message: string, problem: Problem): ConditionChange[] {
  const pause = findCondition(sandbox.status?.conditions, "SandboxPaused");
  if (pause?.status !== "False" || pause.reason === "CheckpointFailed") return [];
  return [{ type: "SandboxPaused", status: "False", reason: "CheckpointFailed", message, problem }];
}

/** A sandbox that has ended loads no memory. */
function loading({ sandbox }: Pick<SandboxState, "sandbox">): string[] {
  const memory = findCondition(sandbox.status?.conditions, "MemoryLoaded");
  return memory?.reason === "Loading" ? ["MemoryLoaded"] : [];
}

/** For a problem that may pass: the phase stays, and the condition reports what is missing. */
export function notReady(state: SandboxState, reason: string, message: string, problem?: Problem): SandboxStatus {
  const condition: ConditionChange = { type: "Ready", status: "False", reason, message, problem };
  return changed(state, startPhase(state), { message, conditions: [condition] });
}

/** As {@link notReady}, for what waiting does not end: somebody has to change something. */
export function notStartable(
  state: SandboxState,
  reason: string,
  problem: Problem,
  message = printProblem(problem),
): SandboxStatus {
  return changed(state, startPhase(state), { message, conditions: stalled(message, problem, reason) });
}

function startPhase({ sandbox }: SandboxState): SandboxPhase {
  return sandbox.status?.phase === "Resuming" ? "Resuming" : "Pending";
}

/** The guest has the requested environment. */
export const initialized: ConditionChange = { type: "RuntimeInitialized", status: "True", reason: "Succeeded" };

/** For a sandbox that responds. */
export function running(state: SandboxState, pod: Pod, started: StartOutcome): SandboxStatus {
  const { sandbox } = state;
  const resumed = sandbox.status?.phase === "Resuming";
  const { rollback, restoredFrom: before, removedPods } = sandbox.status?.ramet ?? {};
  const { generation, bootMilliseconds, initRequest, phases } = started;
  const disruption = migrated(state, pod);
  const claims = lastingClaims(pod);
  const status = changed(state, "Running", {
    conditions: [
      readiness(pod),
      ...(initRequest === undefined ? [] : [initialized]),
      ...memoryConditions(started.memory),
      ...runtimeConditions(state),
      ...egressConditions(state.egress),
      ...imageConditions(pod),
      ...(resumed ? [{ type: "SandboxResumed", status: "True", reason: "ResumePod" } as const] : []),
    ],
    drop: ["SandboxPaused", "ImageResolved", "EgressApplied", "AgentRuntimeInjected", "RuntimeInitialized"],
  });
  return {
    ...status,
    ...placeOf(pod),
    ramet: {
      ...defined({ problems: status.ramet?.problems, generation, bootMilliseconds, initRequest, rollback, disruption }),
      ...defined({ removedPods, restoredFrom: resumed ? before : started.checkpointId }),
      ...defined({ layers: started.layers, layerBytes: started.layerBytes }),
      ...ofCell(sandbox, pod, started),
      // Their names are compared with the existing ones before a resume.
      ...(claims.length > 0 && { claims }),
      phases,
    },
  };
}

/** One that has begun in this Pod is not over when a rollback in place is. */
function migrated({ sandbox: { status = {} }, now }: SandboxState, pod: Pod): RametSandboxStatus["disruption"] {
  if (status.ramet?.disruption?.podUID === pod.metadata.uid) return status.ramet.disruption;
  const disruption = settled(status, { Migrating: "Migrated", Restoring: "Restored" });
  const isNew = disruption?.outcome !== status.ramet?.disruption?.outcome;
  return disruption && (isNew ? { ...disruption, endedAt: now.toISOString() } : disruption);
}

/**
 * A sandbox that responds is ready, unless the template declares what the node must find first: only then does it wait for
 * the node's report.
 */
function readiness(pod: Pod): ConditionChange {
  const problem = declaresReadiness(pod) && !isPodReady(pod) ? unreadyMessage(pod) : undefined;
  if (problem === undefined) return { type: "Ready", status: "True", reason: "PodReady" };
  return { type: "Ready", status: "False", reason: "SandboxNotReady", message: problem };
}

/** Reports a Pod that runs whatever its tag means on its node, without the fields that only the image has. */
function imageConditions({ metadata }: Pod): ConditionChange[] {
  const text = metadata.annotations?.[annotations.imageProblem];
  if (text === undefined) return [];
  // Whoever can change the Pod can change the text.
  const { code = "Internal", message = "the reason was lost" } = parsedJson(ImageProblem, text) ?? {};
  const what = `The image is not pinned, and its user, variables and working directory do not apply: ${message}`;
  return [{ type: "ImageResolved", status: "False", reason: code, message: what }];
}

const ImageProblem = z.object({ code: z.string().regex(/^[A-Za-z]{1,64}$/), message: z.string().max(2_000) });

/** A restore in place keeps the cell, and with it the cell's key, its engine, its capacity and the policy that the cell was given. */
function ofCell(
  { status }: SandboxState["sandbox"],
  pod: Pod,
  started: StartOutcome,
): Pick<RametSandboxStatus, "egress" | "cellKey" | "engine" | "capacity" | "writableLayer"> {
  const { podInfo, ramet } = status ?? {};
  const before = podInfo?.podUID === pod.metadata.uid ? (ramet ?? {}) : {};
  const { egress } = before;
  const cellKey = started.cellKey ?? before.cellKey;
  const engine = started.engine === undefined ? before.engine : engineId(started.engine);
  const capacity = started.capacity ?? before.capacity;
  const writableLayer = started.writableLayer ?? before.writableLayer;
  return defined({ egress, cellKey, engine, capacity, writableLayer });
}

function memoryConditions(memory: StartOutcome["memory"]): ConditionChange[] {
  if (memory === undefined) return [];
  return [memory === "loaded" ? memoryLoaded() : memoryNotLoaded()];
}

/** Reports parts of the template that were not run. */
function runtimeConditions({ template }: SandboxState): ConditionChange[] {
  const message = "problem" in template ? undefined : skippedRuntime(template.template);
  if (message === undefined) return [];
  return [{ type: "AgentRuntimeInjected", status: "False", reason: "ReplacedByGuest", message }];
}

/** Reports whether the rules of the levels can be honoured. Nothing is reported if no level but the runtime has rules. */
export function egressConditions({ policy, problem }: SandboxState["egress"]): ConditionChange[] {
  if (problem !== undefined) return [notApplied("EgressApplied", problem)];
  return policy.narrowedBy === undefined ? [] : [{ type: "EgressApplied", status: "True", reason: "Applied" }];
}

export function notApplied(type: SandboxConditionType, error: RametError): ConditionChange {
  return { type, status: "False", reason: error.code, problem: problemOf(error) };
}

/** All memory of a clone is loaded. */
export function memoryLoaded(): ConditionChange {
  return { type: "MemoryLoaded", status: "True", reason: "Loaded" };
}

/** Until all memory is loaded, a first access may wait for the disk, and a checkpoint waits until it is. */
export function memoryNotLoaded(error?: RametError): ConditionChange {
  const type = "MemoryLoaded";
  if (error !== undefined) {
    return { type, status: "False", reason: "LoadFailed", problem: problemOf(error) };
  }
  const message = "The sandbox responds, and may be slower until all its memory and files are read from the checkpoint";
  return { type, status: "False", reason: "Loading", message };
}

function placeOf({ metadata, spec, status }: Pod): Partial<SandboxStatus> {
  const { nodeName } = spec;
  const podIP = status?.podIP;
  const updateRevision = metadata.labels?.[labels.podTemplateHash];
  return {
    ...defined({ nodeName, sandboxIp: podIP, updateRevision }),
    podInfo: {
      ...(metadata.annotations && { annotations: withoutImage(metadata.annotations) }),
      ...defined({ labels: metadata.labels, nodeName, podIP }),
      podUID: metadata.uid,
    },
  };
}

/** The image's configuration is long, and no reader of a Sandbox needs it. */
function withoutImage({ [annotations.image]: _, ...kept }: Record<string, string>): Record<string, string> {
  return kept;
}
