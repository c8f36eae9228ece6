import { withIgnoredFields } from "../../kube/conditions.ts";
import { chosenClaims, claimName, claimVolumes } from "../../api/pod/volume-claims.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { annotations, finalizers } from "../../api/names/labels.ts";
import { isStarting } from "../../api/state/sandbox.ts";
import { defined } from "../../base/defined.ts";
import { parseDuration } from "../../base/duration.ts";
import { RametError } from "../../base/errors.ts";
import { soonest } from "../../kube/controller.ts";
import type { Transition } from "../../kube/events.ts";
import { planCreatedPaused } from "./plan-created-paused.ts";
import { withCredentials } from "./plan-credentials.ts";
import { withEgress } from "./plan-egress.ts";
import { intendedEnd, withDeparture } from "./plan-disruption.ts";
import { withRemovedPods } from "./plan-lost.ts";
import { planPaused, planPausedAgain } from "./plan-paused.ts";
import { planRollingBack, withRollback } from "./plan-rollback.ts";
import { planRunning } from "./plan-running.ts";
import { planStart } from "./plan-start.ts";
import { awaitsRetry } from "./rollback.ts";
import type { SandboxAction, SandboxPlan, SandboxState } from "./state.ts";
import { changed } from "./status.ts";

/**
 * Plans the next actions and the status of a sandbox. Pure. The phases are those of OpenKruise Agents
 * (pkg/controller/sandbox); sandboxes in other phases belong to another controller.
 */
export function planSandbox(state: SandboxState): SandboxPlan {
  return withIgnored(state, withStartingPod(state, withRemovedPods(state, planLife(state))));
}

/**
 * If the Pod is lost with its node, the sandbox may run there although nobody has heard so. The status before may not have it: it is
 * recorded outside of reconciles.
 */
function withStartingPod({ startingCell, sandbox }: SandboxState, plan: SandboxPlan): SandboxPlan {
  const { status } = plan;
  const isStarted = status?.phase === "Running" || !isStarting(sandbox);
  if (status === undefined || startingCell === undefined || isStarted) return plan;
  return { ...plan, status: { ...status, ramet: { ...status.ramet, startingPod: startingCell } } };
}

function planLife(state: SandboxState): SandboxPlan {
  if (state.sandbox.metadata.deletionTimestamp !== undefined) return withTransition(state, planDeletion(state));
  const { action, nextAt } = timers(state.sandbox, state.now);
  if (action?.do === "deleteSandbox") return { actions: [action] };
  const plan = planPhase(state);
  return withTransition(state, {
    ...plan,
    actions: [...(action === undefined ? [] : [action]), ...plan.actions],
    ...soonest(
      nextAt && nextAt.getTime() - state.now.getTime(),
      slowInMilliseconds(state),
      plan.requeueAfterMilliseconds,
    ),
  });
}

/**
 * Names the fields without effect in a status that is written anyway, so that it costs no write while a sandbox starts or is claimed.
 * A paused sandbox has no such status.
 */
function withIgnored({ sandbox, ignored, now }: SandboxState, plan: SandboxPlan): SandboxPlan {
  const isPaused = sandbox.status?.phase === "Paused" && sandbox.metadata.deletionTimestamp === undefined;
  const status = plan.status ?? (isPaused ? sandbox.status : undefined);
  if (status === undefined) return plan;
  const conditions = withIgnoredFields(status.conditions, ignored, now);
  return conditions === status.conditions ? plan : { ...plan, status: { ...status, conditions } };
}

function planPhase(state: SandboxState): SandboxPlan {
  switch (state.sandbox.status?.phase) {
    case undefined:
    case "Pending":
      return withCredentials(state, planCreatedPaused(state) ?? planStart(state));
    case "Resuming":
      return planRollingBack(state) ?? planPausedAgain(state) ?? withRollback(state, planStart(state));
    case "Running":
      return withDeparture(state, withCredentials(state, withEgress(state, withRollback(state, planRunning(state)))));
    case "Paused":
      return withRollback(state, planPaused(state));
    case "Succeeded":
    case "Failed":
      return withRollback(state, planEnded(state.sandbox));
    default:
      return withRollback(state, { actions: [] });
  }
}

/** Writes the status once more after the spec has changed: its generation is observed. */
function planEnded({ metadata, status }: Sandbox): SandboxPlan {
  const isObserved = status?.observedGeneration === metadata.generation;
  return { actions: [], ...(!isObserved && status && { status }) };
}

/** Until the status of a starting sandbox should report why it waits, unless it already does. */
function slowInMilliseconds({ sandbox, slowInMilliseconds: left }: SandboxState): number | undefined {
  const isUnreported = sandbox.status?.phase === undefined || sandbox.status.phase === "Resuming";
  return isUnreported && left > 0 ? left : undefined;
}

/** Deletes the Pod with its grace period, then removes the finalizer. */
function planDeletion(state: SandboxState): SandboxPlan {
  const { sandbox, pod, pauseCheckpoint, orphans, automatic = [] } = state;
  const owned = new Set([...(pauseCheckpoint === undefined ? [] : [pauseCheckpoint]), ...orphans, ...automatic]);
  const checkpoints = [...owned]
    .filter(({ metadata }) => metadata.deletionTimestamp === undefined)
    .map((checkpoint) => ({ do: "deleteCheckpoint", checkpoint }) as const);
  if (pod === undefined) {
    const ours = sandbox.metadata.finalizers?.includes(finalizers.sandbox) ?? false;
    return {
      actions: [...checkpoints, ...(ours ? [{ do: "removeFinalizer", claims: ownClaims(state) } as const] : [])],
    };
  }
  return {
    actions: [
      ...checkpoints,
      ...(pod.metadata.deletionTimestamp === undefined ? [{ do: "deletePod", pod } as const] : intendedEnd(pod)),
    ],
    status: changed(state, "Terminating", {
      conditions: [
        { type: "Ready", status: "False", reason: "SandboxNotReady", message: "The sandbox is being deleted" },
      ],
    }),
  };
}

/** All claims that the sandbox may own. */
function ownClaims({ sandbox, template }: SandboxState): string[] {
  const { name } = sandbox.metadata;
  const templates = "problem" in template ? [] : template.volumeClaims;
  const made = claimVolumes(templates, name).map((volume) => claimName(volume.name, name));
  return [...new Set([...made, ...chosenClaims(sandbox).values(), ...(sandbox.status?.ramet?.claims ?? [])])];
}

/** Adds an Event for a change of phase, with the names that OpenKruise Agents uses. */
function withTransition(state: SandboxState, plan: SandboxPlan): SandboxPlan {
  const phase = plan.status?.phase;
  if (phase === undefined || phase === state.sandbox.status?.phase) return plan;
  const transition: Transition = {
    type: phase === "Failed" ? "Warning" : "Normal",
    reason: `Sandbox${phase}`,
    action: "Reconcile",
    note:
      plan.status?.message === undefined || plan.status.message === ""
        ? `The sandbox is ${phase}`
        : plan.status.message,
  };
  return { ...plan, transitions: [...(plan.transitions ?? []), transition] };
}

interface Timers {
  /** The action that is due. */
  action?: Extract<SandboxAction, { do: "deleteSandbox" | "setPaused" }>;
  /** When the next one is due. */
  nextAt?: Date;
}

/**
 * Applies `spec.shutdownTime`, after which the Sandbox is deleted, and `spec.pauseTime`, after which it is paused. With
 * `agents.kruise.io/reserve-paused-sandbox-duration`, a due pause postpones the shutdown by that duration, so it takes
 * precedence over a due shutdown. OpenKruise Agents does the same.
 */
export function timers(sandbox: Sandbox, now: Date): Timers {
  const { metadata, spec } = sandbox;
  const shutdownAt = instant(spec.shutdownTime);
  const pauseAt = isPausable(sandbox) ? instant(spec.pauseTime) : undefined;
  const pauseIsDue = pauseAt !== undefined && pauseAt <= now;
  const reserved = reserveMilliseconds(metadata.annotations?.[annotations.reservePausedSandboxDuration]);
  const pause = setPaused(sandbox);
  if (pauseIsDue && reserved !== undefined) {
    return { action: { ...pause, shutdownTime: new Date(now.getTime() + reserved).toISOString() } };
  }
  if (shutdownAt !== undefined && shutdownAt <= now) return { action: { do: "deleteSandbox" } };
  const nextAt = earlier(shutdownAt, pauseIsDue ? undefined : pauseAt);
  return { ...(pauseIsDue && { action: pause }), ...defined({ nextAt }) };
}

function setPaused({ metadata }: Sandbox): Extract<SandboxAction, { do: "setPaused" }> {
  const keepsFilesOnly = metadata.annotations?.[annotations.onTimeout] === "pauseFiles";
  return { do: "setPaused", ...(keepsFilesOnly && { keepsFilesOnly }) };
}

function isPausable(sandbox: Sandbox): boolean {
  return sandbox.spec.paused !== true && (sandbox.status?.phase === "Running" || awaitsRetry(sandbox));
}

function earlier(a: Date | undefined, b: Date | undefined): Date | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return a < b ? a : b;
}

function instant(time: string | undefined): Date | undefined {
  return time === undefined ? undefined : new Date(time);
}

/** Undefined: nothing is reserved. An invalid duration is ignored, because any user can write the annotation. */
function reserveMilliseconds(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (text === "forever") return 100 * 365 * 86_400_000;
  try {
    return Math.max(0, parseDuration(text));
  } catch (error) {
    if (RametError.from(error).code !== "InvalidArgument") throw error;
    return undefined;
  }
}
