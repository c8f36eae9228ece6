import type { Pod } from "../../api/schema/pod.ts";
import { problemOf } from "../../api/state/problem.ts";
import { RametError } from "../../base/errors.ts";
import { isEnded, unscheduledWords } from "../cluster/pod-facts.ts";
import { listed } from "../volumes/restored-volumes.ts";
import type { SandboxPlan, SandboxState } from "./state.ts";
import { failed, notReady } from "./status.ts";

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
