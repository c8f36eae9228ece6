import type { RametSandboxStatus } from "../../api/kinds/sandbox.ts";
import { labels } from "../../api/names/labels.ts";
import { disruptionPolicyOf } from "../../api/pod/disruption.ts";
import type { Pod } from "../../api/schema/pod.ts";
import { checkpointState, isPreparing, whyPending } from "../../api/state/checkpoint.ts";
import { problemIn, within } from "../../api/state/problem.ts";
import { controllerOf } from "../../kube/object.ts";
import { disruptionCheckpointName } from "../cluster/pause-checkpoint.ts";
import { cellRuns, disruptionCause, isDisrupted, isEnded } from "../cluster/pod-facts.ts";
import type { SandboxAction, SandboxPlan, SandboxState } from "./state.ts";
import { changed, type ConditionChange, lost } from "./status.ts";

type Disruption = NonNullable<RametSandboxStatus["disruption"]>;

/**
 * Saves a running sandbox whose Pod others end: it is captured as for a pause while its cell holds the end, then paused, and resumed
 * unless it shall stay paused. The next Pod has the name of the old one, so two copies never run. Undefined: nobody ends the Pod, or
 * nothing is saved.
 */
export function planDisruption(state: SandboxState): SandboxPlan | undefined {
  const { pauseCheckpoint: checkpoint, stoppedBy } = state;
  const disruption = disruptionUnderWay(state);
  if (disruption === undefined || stoppedBy !== undefined) return undefined;
  const is = checkpoint && checkpointState(checkpoint);
  if (is === "succeeded") return captured(state, disruption);
  if (is === "unfinished") return capturing(state, disruption);
  if (is === "failed" && checkpoint?.metadata.name === disruptionCheckpointName(state.sandbox))
    return notCaptured(state, disruption);
  const { pod } = state;
  // Without its capture, its end says more than the disruption.
  return pod === undefined || isEnded(pod) ? undefined : begin(state, disruption);
}

/** The recorded disruption of the current Pod, or one that begins now. */
function disruptionUnderWay(state: SandboxState): Disruption | undefined {
  const { pod, now } = state;
  const { podInfo, ramet } = state.sandbox.status ?? {};
  const recorded = ramet?.disruption;
  if (recorded !== undefined && recorded.podUID === podInfo?.podUID && isUnderWay(recorded)) return recorded;
  if (pod === undefined || !begins(state, pod)) return undefined;
  const outcome = disruptionPolicyOf(pod) === "Pause" ? "Pausing" : "Migrating";
  return { cause: disruptionCause(pod), at: now.toISOString(), outcome, podUID: pod.metadata.uid };
}

function begins(state: SandboxState, pod: Pod): boolean {
  const { uid } = pod.metadata;
  const isCurrent = uid === (state.sandbox.status?.podInfo?.podUID ?? uid);
  return isCurrent && !isEnded(pod) && isDisrupted(pod) && isSaved(state, pod);
}

function isUnderWay({ outcome }: Disruption): boolean {
  return outcome === "Migrating" || outcome === "Pausing";
}

/** A set replaces its sandboxes that nobody has claimed faster than it moves them, and a build starts again. */
function isSaved({ sandbox }: SandboxState, pod: Pod): boolean {
  const kind = controllerOf(sandbox)?.kind;
  const isUnclaimed = kind === "SandboxSet" && sandbox.metadata.labels?.[labels.sandboxClaimed] !== "true";
  return disruptionPolicyOf(pod) !== "End" && !isUnclaimed && kind !== "NamedSnapshot";
}

function begin(state: SandboxState, disruption: Disruption): SandboxPlan {
  const { template, sandbox, pauseCheckpoint: earlier } = state;
  const { contents } = "problem" in template ? { contents: sandbox.spec } : template;
  const { persistentContents = [] } = contents;
  const note = `The Pod is being ended (${disruption.cause}); the sandbox is captured to continue from there`;
  return {
    actions: [
      { do: "createPauseCheckpoint", persistentContents, isOfDisruption: true },
      ...(earlier === undefined ? [] : [{ do: "deleteCheckpoint", checkpoint: earlier } as const]),
    ],
    status: held(state, disruption, "A checkpoint is being taken, because its Pod is being ended"),
    ...(disruption.podUID !== sandbox.status?.ramet?.disruption?.podUID && {
      transitions: [{ type: "Warning", reason: "SandboxDisrupted", action: "Capture", note }],
    }),
  };
}

function capturing(state: SandboxState, disruption: Disruption): SandboxPlan {
  const { pauseCheckpoint } = state;
  const name = pauseCheckpoint?.metadata.name ?? "";
  const why = pauseCheckpoint && isPreparing(pauseCheckpoint) ? whyPending(pauseCheckpoint)?.message : undefined;
  const progress = why === undefined ? "is being taken" : `has not begun. ${why}`;
  return {
    actions: [],
    status: held(state, disruption, `The checkpoint ${name} ${progress}, because the Pod is being ended`),
  };
}

/** The sandbox still responds. */
function held(state: SandboxState, disruption: Disruption, message: string) {
  const condition: ConditionChange = { type: "SandboxPaused", status: "False", reason: "CheckpointCreating", message };
  const before = state.sandbox.status?.message ?? "";
  return withDisruption(changed(state, "Running", { message: before, conditions: [condition] }), disruption);
}

function captured(state: SandboxState, disruption: Disruption): SandboxPlan {
  const { sandbox, pauseCheckpoint } = state;
  // As for a pause of the user: the checkpoint is the only copy, so no timer deletes it.
  const isKept = disruption.outcome === "Pausing" || sandbox.spec.paused === true;
  const pause: SandboxAction[] =
    isKept && sandbox.spec.paused !== true ? [{ do: "setPaused", shutdownTime: null }] : [];
  const kept = `The checkpoint ${pauseCheckpoint?.metadata.name ?? ""} has the sandbox's state`;
  const message = `Its Pod was ended (${disruption.cause})`;
  const status = changed(state, "Paused", {
    message: isKept
      ? `${message}, and it stays paused until it is resumed`
      : `${message}, and it continues in another Pod`,
    conditions: [
      { type: "SandboxPaused", status: "False", reason: "CheckpointSucceeded", message: `${message}. ${kept}` },
      { type: "Ready", status: "False", reason: "SandboxNotReady", message },
    ],
    drop: ["SandboxResumed", "MemoryLoaded"],
  });
  const outcome = isKept ? "Paused" : "Migrating";
  return { actions: pause, status: withDisruption(status, { ...disruption, outcome }) };
}

/** The checkpoint has failed, or the Pod has ended before it was taken. Nothing holds the end of the sandbox any more. */
function notCaptured(state: SandboxState, disruption: Disruption): SandboxPlan {
  const { pauseCheckpoint, pod } = state;
  const status = pauseCheckpoint?.status;
  const why = problemIn(status) ?? { code: "CheckpointFailed", cause: status?.message ?? "no reason given" };
  const what = `Its Pod was ended (${disruption.cause}), and its state could not be saved: the checkpoint ${pauseCheckpoint?.metadata.name ?? ""} failed`;
  return {
    actions: intendedEnd(pod),
    status: lost(state, within(why, what).cause),
  };
}

/** What makes the cell end its sandbox as soon as its Pod ends. */
export function intendedEnd(pod: Pod | undefined): Extract<SandboxAction, { do: "intendEnd" }>[] {
  const isHeld = pod !== undefined && disruptionPolicyOf(pod) !== "End" && cellRuns(pod);
  return isHeld ? [{ do: "intendEnd", pod }] : [];
}

function withDisruption<S extends { ramet?: RametSandboxStatus | undefined }>(status: S, disruption: Disruption): S {
  return { ...status, ramet: { ...status.ramet, disruption } };
}
