import { finalizers } from "../../api/labels.ts";
import type { Transition } from "../../kube/events.ts";
import { planPaused } from "./plan-paused.ts";
import { planRunning } from "./plan-running.ts";
import { planStart } from "./plan-start.ts";
import { timers } from "./timers.ts";
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
  return withTransition(state, {
    ...plan,
    actions: [...(action === undefined ? [] : [action]), ...plan.actions],
    ...(nextAt && { lookAgainAt: nextAt }),
  });
}

function planPhase(state: SandboxState): SandboxPlan {
  switch (state.sandbox.status?.phase) {
    case undefined:
    case "Pending":
    case "Resuming":
      return planStart(state);
    case "Running":
      return planRunning(state);
    case "Paused":
      return planPaused(state);
    default:
      return { actions: [] };
  }
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
