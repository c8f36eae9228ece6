import { isPodReady, type Pod } from "../../api/schema/pod.ts";
import { findCondition } from "../../kube/conditions.ts";
import { withAdoption } from "./plan-adoption.ts";
import { planPausing } from "./plan-pausing.ts";
import { isEnded } from "../common/pod-facts.ts";
import type { SandboxAction, SandboxPlan, SandboxState } from "./state.ts";
import { changed, ended, memoryLoaded, memoryNotLoaded, type ConditionChange } from "./status.ts";

/** A sandbox that runs: it is paused on wish, and else follows its Pod. */
export function planRunning(state: SandboxState): SandboxPlan {
  const { sandbox, pauseCheckpoint, leftovers } = state;
  const tidyUp = leftovers.map((checkpoint) => ({ do: "deleteCheckpoint", checkpoint }) as const);
  // A checkpoint that ends its source cannot be called back: the pause comes to its end, and then the resume.
  const pausing = pauseCheckpoint !== undefined && pauseCheckpoint.status?.phase !== "Failed";
  if (pausing) return withActions(planPausing(state), tidyUp);
  const end = planEnd(state);
  if (end !== undefined) return end;
  if (sandbox.spec.paused === true) return withActions(planPausing(state), tidyUp);
  const dropped =
    pauseCheckpoint === undefined ? [] : [{ do: "deleteCheckpoint", checkpoint: pauseCheckpoint } as const];
  return withActions(withAdoption(state, planReadiness(state)), [...tidyUp, ...dropped]);
}

/** The Pod has ended, or is gone or going although nobody asked this controller for it. */
function planEnd(state: SandboxState): SandboxPlan | undefined {
  const { sandbox, pod } = state;
  const recorded = sandbox.status?.podInfo?.podUID;
  const isOwn = pod !== undefined && (recorded === undefined || pod.metadata.uid === recorded);
  if (isOwn && isEnded(pod)) return { actions: [], status: ended(state, pod) };
  if (isOwn && pod.metadata.deletionTimestamp === undefined) return undefined;
  const message =
    "Pod Not Found: the sandbox's Pod was deleted, and what it held is gone; delete the Sandbox, and create it anew " +
    "from its template or from a checkpoint";
  const condition = { type: "Ready", status: "False", reason: "SandboxLost", message } as const;
  return { actions: [], status: changed(state, "Failed", { message, conditions: [condition] }) };
}

/**
 * The cell's answer made the sandbox ready, often before the kubelet's probe has had its turn. So only a Pod that has
 * become unready since then says otherwise.
 */
function planReadiness(state: SandboxState): SandboxPlan {
  const { sandbox, pod } = state;
  if (pod === undefined) return { actions: [] };
  const conditions = sandbox.status?.conditions;
  const ready = findCondition(conditions, "Ready");
  const problem = ready?.status === "True" ? unreadySince(pod, ready.lastTransitionTime) : undefined;
  if (problem !== undefined) {
    const message = `The Pod is not Ready: ${problem}`;
    const condition = { type: "Ready", status: "False", reason: "SandboxNotReady", message } as const;
    return {
      actions: [],
      status: changed(state, "Running", { message, conditions: [condition], drop: ["SandboxPaused"] }),
    };
  }
  if (ready?.status !== "True" && !isPodReady(pod)) {
    return {
      actions: [],
      status: changed(state, "Running", { message: ready?.message ?? "", drop: ["SandboxPaused"] }),
    };
  }
  const condition = { type: "Ready", status: "True", reason: "PodReady" } as const;
  const { actions, conditions: memory } = planMemory(state, pod);
  return {
    actions,
    status: changed(state, "Running", { conditions: [condition, ...memory], drop: ["SandboxPaused"] }),
  };
}

/** A clone whose memory was still being read when it answered is asked until that is over, by this controller or the next. */
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

/** Undefined: it is ready, or was never seen ready. */
export function unreadySince(pod: Pod, instant: string): string | undefined {
  const condition = pod.status?.conditions?.find(({ type, status }) => type === "Ready" && status === "False");
  const since = condition?.lastTransitionTime;
  if (condition === undefined || since == null || new Date(since) <= new Date(instant)) return undefined;
  return condition.message ?? condition.reason ?? "no reason given";
}

function withActions(plan: SandboxPlan, actions: SandboxAction[]): SandboxPlan {
  return { ...plan, actions: [...plan.actions, ...actions] };
}
