import type { SandboxStatus } from "../../api/kinds/sandbox.ts";
import { initRequestDigest } from "../../api/names/init-request.ts";
import { isPodReady, type Pod } from "../../api/schema/pod.ts";
import { findCondition } from "../../kube/conditions.ts";
import { isUnfinished } from "../common/pause-checkpoint.ts";
import { cellRuns, isEnded } from "../common/pod-facts.ts";
import { type SandboxAction, type SandboxPlan, type SandboxState, wantsAdoption } from "./state.ts";
import { changed, type ConditionChange, ended, initialized, memoryLoaded, memoryNotLoaded } from "./status.ts";

/** A sandbox that runs: it is paused on request, and otherwise follows its Pod. */
export function planRunning(state: SandboxState): SandboxPlan {
  const { sandbox, pauseCheckpoint, orphans } = state;
  const tidyUp = orphans.map((checkpoint) => ({ do: "deleteCheckpoint", checkpoint }) as const);
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

/**
 * A running sandbox whose annotation asks for another environment than its guest has: a claim has just written it. New
 * commands get it; what runs keeps what it has.
 */
function withAdoption(state: SandboxState, plan: SandboxPlan): SandboxPlan {
  const { sandbox, pod, template, adoption } = state;
  // What takes the place of this one has it from the first moment.
  if (state.rollback !== undefined) return plan;
  if (!wantsAdoption(sandbox) || pod === undefined || "problem" in template || !cellRuns(pod)) return plan;
  if (adoption === undefined) {
    return { ...plan, actions: [...plan.actions, { do: "adoptIdentity", pod, template: template.template }] };
  }
  if (adoption.state === "failed") {
    const message = adoption.error.describe();
    return withStatus(state, plan, { type: "RuntimeInitialized", status: "False", reason: "Failed", message });
  }
  if (adoption.state === "running") return plan;
  const { status, ...rest } = withStatus(state, plan, initialized);
  const { initRequest: _, ...ramet } = status.ramet ?? {};
  const initRequest = initRequestDigest(sandbox);
  const { generation } = adoption.value;
  return {
    ...rest,
    status: { ...status, ramet: { ...ramet, generation, ...(initRequest !== undefined && { initRequest }) } },
  };
}

function withStatus(
  state: SandboxState,
  plan: SandboxPlan,
  condition: ConditionChange,
): SandboxPlan & { status: SandboxStatus } {
  const status = plan.status ?? state.sandbox.status ?? {};
  const message = status.message ?? "";
  const { now } = state;
  const sandbox = { ...state.sandbox, status };
  return { ...plan, status: changed({ sandbox, now }, "Running", { message, conditions: [condition] }) };
}

/**
 * From Running to Paused. With a checkpoint, the phase moves when that has succeeded, so that a pause that fails leaves
 * the sandbox running as it was; with the strategy Stop it moves at once.
 */
function planPausing(state: SandboxState): SandboxPlan {
  const { pauseCheckpoint } = state;
  if (pauseCheckpoint === undefined) return planBeginning(state);
  const { name } = pauseCheckpoint.metadata;
  if (isUnfinished(pauseCheckpoint)) {
    return stillRunning(state, "CheckpointCreating", `The checkpoint ${name} is being taken`);
  }
  if (pauseCheckpoint.status?.phase === "Failed") {
    const why = pauseCheckpoint.status.message ?? "no reason given";
    const message = `The checkpoint ${name} failed, and the sandbox goes on: ${why}. Set spec.paused to false, and to true again, to try once more`;
    return stillRunning(state, "CheckpointFailed", message);
  }
  return paused(state, "CheckpointSucceeded", `The checkpoint ${name} holds it`);
}

function planBeginning(state: SandboxState): SandboxPlan {
  const { template, otherCheckpoint, sandbox } = state;
  const resolved = "problem" in template ? undefined : template;
  const strategy = sandbox.spec.pauseStrategy?.type ?? resolved?.pauseStrategy;
  if (strategy === "Stop") return paused(state, "Pending", "The Pod is deleted; its memory and files are not kept");
  if (otherCheckpoint !== undefined) {
    const message = `The pause waits for the checkpoint ${otherCheckpoint.metadata.name}, which is being taken`;
    return stillRunning(state, "Pending", message);
  }
  const persistentContents = sandbox.spec.persistentContents ?? resolved?.persistentContents ?? [];
  const plan = stillRunning(state, "CheckpointCreating", "A checkpoint is being taken");
  return { ...plan, actions: [{ do: "createPauseCheckpoint", persistentContents }] };
}

function stillRunning(state: SandboxState, reason: string, message: string): SandboxPlan {
  const { sandbox } = state;
  const condition: ConditionChange = { type: "SandboxPaused", status: "False", reason, message };
  return {
    actions: [],
    status: changed(state, "Running", { message: sandbox.status?.message ?? "", conditions: [condition] }),
  };
}

function paused(state: SandboxState, reason: string, message: string): SandboxPlan {
  return {
    actions: [],
    status: changed(state, "Paused", {
      conditions: [
        { type: "SandboxPaused", status: "False", reason, message },
        { type: "Ready", status: "False", reason: "SandboxNotReady", message: "The sandbox is paused" },
      ],
      drop: ["SandboxResumed", "MemoryLoaded"],
    }),
  };
}
