import { finalizers } from "../../api/names/labels.ts";
import type { Transition } from "../../kube/events.ts";
import { planPaused } from "./plan-paused.ts";
import { planRollingBack } from "./plan-rolling-back.ts";
import { withRollback } from "./plan-rollback.ts";
import { planRunning } from "./plan-running.ts";
import { planStart } from "./plan-start.ts";
import { rollbackUnderWay } from "./rollback.ts";
import { earlier, timers } from "./timers.ts";
import type { SandboxPlan, SandboxState } from "./state.ts";
import { changed } from "./status.ts";

/**
 * What to do about a sandbox: a pure function of what is known. The phases are those of OpenKruise Agents
 * (pkg/controller/sandbox); phases that Ramet does not know are another controller's business.
 */
export function planSandbox(state: SandboxState): SandboxPlan {
  if (state.sandbox.metadata.deletionTimestamp !== undefined) return withTransition(state, planDeletion(state));
  const { action, nextAt } = timers(state.sandbox, state.now);
  if (action?.do === "deleteSandbox") return { actions: [action] };
  const plan = planPhase(state);
  const lookAgainAt = earlier(nextAt, slowAt(state));
  return withTransition(state, {
    ...plan,
    actions: [...(action === undefined ? [] : [action]), ...plan.actions],
    ...(lookAgainAt && { lookAgainAt }),
  });
}

function planPhase(state: SandboxState): SandboxPlan {
  switch (state.sandbox.status?.phase) {
    case undefined:
    case "Pending":
      return planStart(state);
    case "Resuming":
      return planResuming(state);
    case "Running":
      return withRollback(state, planRunning(state));
    case "Paused":
      return withRollback(state, planPaused(state));
    default:
      return withRollback(state, { actions: [] });
  }
}

/** When a sandbox that starts should say for what it waits, if it has not said so before. */
function slowAt({ sandbox, slowInMilliseconds, now }: SandboxState): Date | undefined {
  const phase = sandbox.status?.phase;
  const isStarting = phase === undefined || phase === "Resuming";
  return isStarting && slowInMilliseconds > 0 ? new Date(now.getTime() + slowInMilliseconds) : undefined;
}

/** From what a pause has kept, or back to a checkpoint. */
function planResuming(state: SandboxState): SandboxPlan {
  const underWay = rollbackUnderWay(state.sandbox);
  return underWay === undefined ? planStart(state) : planRollingBack(state, underWay);
}

/** The Pod goes, with its grace period; when it has gone, so may the Sandbox. */
function planDeletion(state: SandboxState): SandboxPlan {
  const { sandbox, pod, pauseCheckpoint, leftovers } = state;
  const owned = [...(pauseCheckpoint === undefined ? [] : [pauseCheckpoint]), ...leftovers];
  const checkpoints = owned
    .filter(({ metadata }) => metadata.deletionTimestamp === undefined)
    .map((checkpoint) => ({ do: "deleteCheckpoint", checkpoint }) as const);
  if (pod === undefined) {
    const ours = sandbox.metadata.finalizers?.includes(finalizers.sandbox) ?? false;
    return { actions: [...checkpoints, ...(ours ? [{ do: "removeFinalizer" } as const] : [])] };
  }
  return {
    actions: [
      ...checkpoints,
      ...(pod.metadata.deletionTimestamp === undefined ? [{ do: "deletePod", pod } as const] : []),
    ],
    status: changed(state, "Terminating", {
      conditions: [{ type: "Ready", status: "False", reason: "SandboxNotReady", message: "The sandbox is deleted" }],
    }),
  };
}

/** One Event for each change of phase, named as the reference names them. */
function withTransition(state: SandboxState, plan: SandboxPlan): SandboxPlan {
  const phase = plan.status?.phase;
  if (phase === undefined || phase === state.sandbox.status?.phase) return plan;
  const transition: Transition = {
    type: phase === "Failed" ? "Warning" : "Normal",
    reason: `Sandbox${phase}`,
    action: "Reconcile",
    note: plan.status?.message === undefined || plan.status.message === "" ? `It is ${phase}` : plan.status.message,
  };
  return { ...plan, transitions: [...(plan.transitions ?? []), transition] };
}
