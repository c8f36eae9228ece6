import type { SandboxStatus } from "../../api/kinds/sandbox.ts";
import type { PodTemplateSpec } from "../../api/schema/pod-template.ts";
import type { Pod } from "../../api/schema/pod.ts";
import { RametError } from "../../base/errors.ts";
import type { RestoreSource } from "../../backends/checkpoint-parts.ts";
import { isUnfinished } from "../common/pause-checkpoint.ts";
import { cellRuns, isEnded } from "../common/pod-facts.ts";
import { notRolledBack, refused, withRolledBack } from "./rollback.ts";
import type { SandboxPlan, SandboxState, StartOutcome } from "./state.ts";
import { changed, running } from "./status.ts";

/**
 * What is asked for by `ramet.dev/rollback-to`, on top of what else is to be done about a settled sandbox. It is refused
 * before anything is touched; or it is done in the Pod that runs; or, where none does, it begins with the phase Resuming,
 * and another Pod takes the place of what is left of the old one.
 */
export function withRollback(state: SandboxState, plan: SandboxPlan): SandboxPlan {
  const { rollback, sandbox } = state;
  const phase = sandbox.status?.phase;
  // A sandbox that has just come to its end, or to its pause, is answered from there.
  if (rollback === undefined || (plan.status !== undefined && plan.status.phase !== phase)) return plan;
  const decision = decide(state, rollback);
  if ("source" in decision) {
    const pod = podForRestoreInPlace(state);
    if (pod !== undefined)
      return planRestoreInPlace(state, plan, { pod, ...decision, request: rollback.request.digest });
    return { actions: [], status: beginning(state, rollback.request.digest, decision.source) };
  }
  const status = plan.status ?? sandbox.status ?? {};
  if ("wait" in decision) {
    const condition = notRolledBack("Pending", decision.wait);
    return { ...plan, status: withRolledBack(state, status, condition) };
  }
  return { ...plan, status: refused(state, status, { request: rollback.request.digest, error: decision.refusal }) };
}

type Decision = { source: RestoreSource; template: PodTemplateSpec } | { wait: string } | { refusal: RametError };

function decide(state: SandboxState, { origin, request }: NonNullable<SandboxState["rollback"]>): Decision {
  const { sandbox, template } = state;
  const isPausedOrGoing = sandbox.status?.phase === "Paused" || sandbox.spec.paused === true;
  const awaited = sandbox.status?.phase === "Running" ? checkpointUnderWay(state, isPausedOrGoing) : undefined;
  if (awaited !== undefined) return { wait: `It waits for the checkpoint ${awaited}, which is being taken` };
  if (isPausedOrGoing) return { refusal: isPaused() };
  if ("problem" in template) return { refusal: template.problem };
  if (origin.kind === "checkpoint") return { source: origin.source, template: template.template };
  return { refusal: origin.kind === "impossible" ? origin.error : notYet(request.to) };
}

/** A pause that has begun comes to its end first. Of others: it may be what is asked for, and its end must not come from here. */
function checkpointUnderWay({ pauseCheckpoint, otherCheckpoint }: SandboxState, pauses: boolean): string | undefined {
  if (pauseCheckpoint !== undefined && isUnfinished(pauseCheckpoint)) return pauseCheckpoint.metadata.name;
  return pauses ? undefined : otherCheckpoint?.metadata.name;
}

function isPaused(): RametError {
  return new RametError("SandboxNotReady", "A paused sandbox is not rolled back", {
    hint: "Set spec.paused to false, and ask again when it runs",
  });
}

function beginning(state: SandboxState, request: string, { name }: RestoreSource): SandboxStatus {
  const { checkpointId } = name;
  const message = `It is being rolled back to the checkpoint ${checkpointId}`;
  const replacedPodUid = state.pod?.metadata.uid;
  return {
    ...changed(state, "Resuming", {
      message,
      conditions: [
        { type: "Ready", status: "False", reason: "SandboxNotReady", message },
        notRolledBack("Restoring", message),
      ],
      drop: ["SandboxPaused", "SandboxResumed", "MemoryLoaded"],
    }),
    ramet: {
      ...state.sandbox.status?.ramet,
      rollback: { request, checkpointId, ...(replacedPodUid !== undefined && { replacedPodUid }) },
    },
  };
}

export function notYet(to: string): RametError {
  return new RametError("CheckpointNotReady", `${to} cannot be restored: it has not succeeded yet`, {
    hint: "Ask again when it has",
  });
}

interface RestoreInPlaceRequest {
  pod: Pod;
  template: PodTemplateSpec;
  source: RestoreSource;
  /** The digest of the request that is answered by this. */
  request: string;
}

/** The Pod in which the sandbox runs, and whose cell can have something else run there. */
function podForRestoreInPlace({ sandbox, pod, restoreInPlace }: SandboxState): Pod | undefined {
  const { phase, podInfo } = sandbox.status ?? {};
  if (phase !== "Running" || pod === undefined || pod.metadata.uid !== podInfo?.podUID) return undefined;
  if (pod.metadata.deletionTimestamp !== undefined || isEnded(pod) || !cellRuns(pod)) return undefined;
  // The cell of an earlier release does not know how.
  const isUnknown = restoreInPlace?.state === "failed" && restoreInPlace.error.code === "NotFound";
  return isUnknown ? undefined : pod;
}

/**
 * Has the cell put a checkpoint in the place of what runs. No status says that it has begun: until it is done nothing has
 * changed, and whoever asked looks for the answer to the request.
 */
function planRestoreInPlace(state: SandboxState, plan: SandboxPlan, restore: RestoreInPlaceRequest): SandboxPlan {
  const { restoreInPlace } = state;
  if (restoreInPlace === undefined)
    return { ...plan, actions: [...plan.actions, { do: "restoreSandboxInPlace", ...restore }] };
  if (restoreInPlace.state === "done")
    return { actions: plan.actions, status: restoredInPlace(state, restoreInPlace.value, restore) };
  if (restoreInPlace.state === "running") return plan;
  const status = plan.status ?? state.sandbox.status ?? {};
  return { ...plan, status: refused(state, status, { request: restore.request, error: restoreInPlace.error }) };
}

function restoredInPlace(state: SandboxState, outcome: StartOutcome, { pod, source, request }: RestoreInPlaceRequest) {
  const status = running(state, pod, outcome);
  const answered = { ...status, ramet: { ...status.ramet, rollback: { request } } };
  const message = `It goes on from the checkpoint ${source.name.checkpointId}`;
  return withRolledBack(state, answered, { status: "True", reason: "Succeeded", message });
}
