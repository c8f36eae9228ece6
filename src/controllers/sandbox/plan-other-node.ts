import type { RametSandboxStatus, SandboxStatus } from "../../api/kinds/sandbox.ts";
import type { Pod } from "../../api/schema/pod.ts";
import { problemOf, sentenceOf } from "../../api/state/problem.ts";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import { firstNoTargetMilliseconds, noTargetMilliseconds, pendingMilliseconds } from "../cluster/move-facts.ts";
import { isUnderWay } from "../cluster/pause-checkpoint.ts";
import { causeOfEndedStart, endProblem, isEnded, unscheduledWords } from "../cluster/pod-facts.ts";
import { listed } from "../volumes/restored-volumes.ts";
import type { SandboxPlan, SandboxState } from "./state.ts";
import { changed, failed, notReady } from "./status.ts";

/** Whether the memory cannot be restored in this Pod, because the CPU of its node lacks a feature. */
export function isRefusedByCpu({ start, origin, cpus }: SandboxState, pod: Pod): boolean {
  if (origin.kind !== "checkpoint" || pod.spec.nodeName === undefined) return false;
  if (start?.state === "failed") return start.error.code === "CpuFeaturesMissing";
  // Another controller process may have received the refusal.
  return cpus.lacking.includes(pod.spec.nodeName) && isEnded(pod);
}

/** More nodes are not tried: each is the start of a Pod. */
const mostTried = 10;

/**
 * Replaces a Pod on a node whose CPU lacks a feature: the next Pod avoids all nodes that are known to lack one. A sandbox fails if its
 * Pod is on such a node again, as a cluster without a scheduler that follows affinities has it.
 */
export function planOtherNode(state: SandboxState, pod: Pod): SandboxPlan {
  const { nodeName = "" } = pod.spec;
  const { status } = state.sandbox;
  const tried = status?.ramet?.unsuitedNodes ?? [];
  const { start, cpus } = state;
  // Only the cell's own words have the features if its report was lost.
  const isUnreported = cpus.missing.length === 0 && start?.state === "failed";
  const error = isUnreported ? start.error : missingFeatures(state, [...tried, nodeName]);
  if (tried.includes(nodeName) || tried.length >= mostTried) return { actions: [], status: failed(state, error) };
  const waiting = notReady(state, error.code, error.describe(), problemOf(error));
  return {
    actions: [{ do: "deletePod", pod }],
    status: { ...waiting, ramet: { ...waiting.ramet, unsuitedNodes: [...tried, nodeName] } },
    transitions: [{ type: "Warning", reason: error.code, action: "DeletePod", note: error.message }],
  };
}

/** After so many Pods that were ended while a sandbox was resumed in them, what it is resumed from may be the cause. */
const mostEndedPods = 3;

/**
 * Replaces a Pod that ended during a resume or a rollback, if its node, the loss of its node or the death of its cell ended it: what is
 * restored is still there. Undefined: the Pod's end is that of the sandbox.
 */
export function planNextPod(state: SandboxState, pod: Pod): SandboxPlan | undefined {
  const { sandbox } = state;
  const cause = sandbox.status?.phase === "Resuming" ? causeOfEndedStart(pod) : undefined;
  const before = sandbox.status?.ramet?.endedPods ?? [];
  const endedPods = [...new Set([...before, pod.metadata.uid])];
  if (cause === undefined || endedPods.length > mostEndedPods) return undefined;
  const note = `The Pod ${pod.metadata.name} ended before the sandbox was resumed (${cause}): ${sentenceOf(endProblem(pod))}`;
  const waiting = notReady(state, "PodStarting", `${note}. It continues in another Pod`);
  return {
    actions: [{ do: "deletePod", pod }],
    status: { ...waiting, ramet: { ...waiting.ramet, endedPods } },
    ...(endedPods.length > before.length && {
      transitions: [{ type: "Warning", reason: "SandboxDisrupted", action: "DeletePod", note }],
    }),
  };
}

/** Why no node takes a Pod that avoids those without the CPU features. Undefined: it avoids none, or it is scheduled. */
export function lacksFeatures(state: SandboxState, pod: Pod): RametError | undefined {
  const words = unscheduledWords(pod);
  const { lacking } = state.cpus;
  return words === undefined || lacking.length === 0 ? undefined : missingFeatures(state, lacking, words);
}

function missingFeatures({ origin, cpus }: SandboxState, nodes: readonly string[], words?: string): RametError {
  const id = origin.kind === "checkpoint" ? origin.source.name.checkpointId : "";
  const { missing } = cpus;
  const features =
    missing.length === 0 ? "CPU features" : `the CPU feature${missing.length > 1 ? "s" : ""} ${listed(missing)}`;
  const which = nodes.length > 1 ? `the nodes ${listed(nodes)} do` : `the node ${listed(nodes)} does`;
  const scheduler = words === undefined ? "" : ` (the scheduler reports: ${words.replace(/\.$/, "")})`;
  return new RametError(
    "CpuFeaturesMissing",
    `The sandbox cannot start from the checkpoint ${id}: its memory needs ${features}, which ${which} not have${scheduler}`,
    { hint: "Add a node with a CPU like that of the node that captured it, or capture it again on one of these nodes" },
  );
}

/** A node that its Pod avoids may stay after all. */
const unscheduledMilliseconds = 15_000;

/**
 * For a sandbox whose Pod was ended and whose next one no node takes: the status says why, and after some minutes it is Paused without a
 * Pod, or immediately if more room would not help. It gets another one as soon as there is another node, after a minute, and from time
 * to time. Those wait for an autoscaler, which may add even such a node.
 * @param status while it waits for its Pod
 */
export function withoutTarget(state: SandboxState, pod: Pod, status: SandboxStatus): SandboxPlan {
  const { now, sandbox } = state;
  const { disruption, noTarget: before } = sandbox.status?.ramet ?? {};
  const words = unscheduledWords(pod);
  if (words === undefined || disruption === undefined || !isUnderWay(disruption)) return { actions: [], status };
  const { cause } = disruption;
  const message = [state.noNode, status.message ?? words].filter(Boolean).join(". ");
  const noTarget = { cause, at: before?.at ?? now.toISOString(), message };
  const createdAt = Date.parse(pod.metadata.creationTimestamp);
  const isImmediate = state.noNode !== undefined && Date.parse(noTarget.at) >= createdAt;
  const left = isImmediate ? 0 : createdAt + pendingMilliseconds - now.getTime();
  if (left > 0) {
    const requeueAfterMilliseconds = Math.min(left, unscheduledMilliseconds);
    return { actions: [], status: { ...status, ramet: { ...status.ramet, noTarget } }, requeueAfterMilliseconds };
  }
  return pausedWithoutTarget(state, pod, { ...noTarget, isImmediate });
}

type NoTarget = NonNullable<RametSandboxStatus["noTarget"]>;

function pausedWithoutTarget(
  state: SandboxState,
  pod: Pod,
  { isImmediate, ...noTarget }: NoTarget & { isImmediate: boolean },
): SandboxPlan {
  const { cause, message } = noTarget;
  const milliseconds = isImmediate ? firstNoTargetMilliseconds : noTargetMilliseconds;
  const [pausedAt, retryAt] = [0, milliseconds].map((after) => new Date(state.now.getTime() + after).toISOString());
  const why = `Its Pod was ended (${cause}), and it continues when a node takes the next one. ${message}`;
  const paused = changed(state, "Paused", {
    message: why,
    conditions: [{ type: "Ready", status: "False", reason: "NoTarget", message: why }],
    drop: ["SandboxResumed"],
  });
  return {
    actions: [{ do: "deletePod", pod }],
    status: { ...paused, ramet: { ...paused.ramet, noTarget: { ...noTarget, ...defined({ pausedAt, retryAt }) } } },
    transitions: [{ type: "Warning", reason: "NoTarget", action: "DeletePod", note: why }],
  };
}
