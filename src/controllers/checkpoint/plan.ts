import { RametError } from "../../base/errors.ts";
import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { annotations, finalizers } from "../../api/names/labels.ts";
import { expiryOf, isAutomatic, isPauseCheckpoint, waitsTurn } from "../../api/state/checkpoint.ts";
import type { CheckpointRecord } from "../../backends/checkpoint-record.ts";
import { delaysCaptures, preparationRemedy, preparedPrograms } from "../../kube/volumes/preparation.ts";
import { capturedPodUid } from "../cluster/pause-checkpoint.ts";
import type { CheckpointAction, CheckpointPlan, CheckpointState, Source } from "./state.ts";
import { failed, pending, planData, succeeded, terminating, waiting, withIgnored } from "./status.ts";

/** Plans the next actions for a checkpoint; a pure function. For the rules see docs/reference/controllers.md. */
export function planCheckpoint(state: CheckpointState): CheckpointPlan {
  return withIgnored(state, planPhase(state));
}

function planPhase(state: CheckpointState): CheckpointPlan {
  const { metadata, status } = state.checkpoint;
  const isFinished = status?.phase === "Succeeded" || status?.phase === "Failed";
  if (metadata.deletionTimestamp !== undefined && !isBeingCaptured(state)) return planRemoval(state);
  return isFinished ? planFinished(state) : planCapture(state);
}

/** A started capture runs to its end, even if the Checkpoint is deleted meanwhile. An import ends. */
function isBeingCaptured({ checkpoint, capture, source }: CheckpointState): boolean {
  if ("volumeImport" in source) return false;
  if (capture !== undefined) return capture.state === "running";
  return checkpoint.status?.phase === "Creating" && capturedPodUid(checkpoint) !== undefined && !("problem" in source);
}

function planCapture(state: CheckpointState): CheckpointPlan {
  const { capture, source } = state;
  if (capture?.state === "done") return captured(state, capture.value);
  if (capture?.state === "failed") return failed(state, capture.error);
  if (capture?.state === "running") return { actions: abandonedCapture(source) };
  return planStart(state);
}

function planStart(state: CheckpointState): CheckpointPlan {
  const { source, earlierCapture, spec, quota } = state;
  if ("problem" in spec) return failed(state, spec.problem);
  if ("volumeImport" in source) {
    const { volumeImport } = source;
    return "problem" in quota ? failed(state, quota.problem) : { actions: [{ do: "startImport", volumeImport }] };
  }
  if ("dataId" in source) {
    if ("problem" in quota) return failed(state, quota.problem);
    return planPreparation(state) ?? { actions: [{ do: "shareStored", source, spec }] };
  }
  if ("problem" in source) return planUnavailable(state, source);
  if (earlierCapture !== undefined) return afterAnother(state, earlierCapture, spec.sandboxName);
  if ("problem" in quota) return failed(state, quota.problem);
  return planPreparation(state) ?? { actions: [{ do: "startCapture", source, spec, maxBytes: quota.maxBytes }] };
}

/** How often an unfinished preparation is read again. */
const preparationMilliseconds = 2_000;

/** A checkpoint waits this long while the preparation fails, which may succeed when it is repeated. */
const failingMilliseconds = 600_000;

/**
 * A local cluster prepares the programs that capture volumes, for minutes. The capture begins after that: it pauses the sandbox, and
 * has time limits.
 */
function planPreparation(state: CheckpointState): CheckpointPlan | undefined {
  const { checkpoint, preparation, now } = state;
  if (preparation === undefined || !delaysCaptures(preparation, now)) return undefined;
  const { failure, failingSince = preparation.since } = preparation;
  const requeue = { requeueAfterMilliseconds: preparationMilliseconds };
  const what = `It is captured when the local cluster has prepared ${preparedPrograms}`;
  if (failure === undefined) {
    const message = `${what}; that time is not part of its time limits. Follow the progress with: ramet local status`;
    return { ...pending(state, "Preparing", message), ...requeue };
  }
  // It may have waited for its turn before.
  const startedAt = Math.max(Date.parse(checkpoint.metadata.creationTimestamp), Date.parse(failingSince));
  const waitedMilliseconds = now.getTime() - startedAt;
  if (waitedMilliseconds < failingMilliseconds) {
    const message = `${what}; the last attempt failed, and is repeated: ${failure}. ${preparationRemedy}`;
    return { ...pending(state, "PreparationFailed", message), ...requeue };
  }
  const why = `The checkpoint was not taken: the local cluster cannot prepare ${preparedPrograms}: ${failure}`;
  return failed(state, new RametError("VolumeNotCaptured", why, { hint: preparationRemedy }));
}

/** Without a source, a checkpoint that waits for its turn waits while an earlier capture or a moment may explain that. */
function planUnavailable(state: CheckpointState, source: Extract<Source, { problem: RametError }>): CheckpointPlan {
  const { checkpoint, earlierCapture } = state;
  if (capturedPodUid(checkpoint) !== undefined)
    return { actions: [{ do: "findPublished", otherwise: source.problem }] };
  if (earlierCapture !== undefined && followsOthers(checkpoint)) return waiting(state, earlierCapture.metadata.name);
  return waitsTurn(checkpoint) && source.isTemporary === true ? waiting(state) : failed(state, source.problem);
}

/** A waiting checkpoint may begin before a pause is seen, so a pause waits too. */
function followsOthers(checkpoint: Checkpoint): boolean {
  return waitsTurn(checkpoint) || isPauseCheckpoint(checkpoint);
}

/** Removes data that exceeds the quota before the status says so: whatever fails, a repeat finds the data or takes it again. */
function captured(state: CheckpointState, record: CheckpointRecord): CheckpointPlan {
  const { quota } = state;
  if (!("problem" in quota)) return succeeded(state, record);
  return { ...failed(state, quota.problem), actions: [{ do: "discard", record }] };
}

/** The cell of an ended Pod never responds. Data that it published before is looked up in the store. */
function abandonedCapture(source: Source): CheckpointAction[] {
  return "problem" in source && source.hasEnded ? [{ do: "findPublished", otherwise: source.problem }] : [];
}

/** Reports what became of the data, and what the end of a capture requires. */
function planFinished(state: CheckpointState): CheckpointPlan {
  const { checkpoint, finding, now } = state;
  const plan = planEnd(state);
  const isDeleted = plan.actions.some((action) => action.do === "deleteCheckpoint");
  if (isDeleted || checkpoint.status?.phase !== "Succeeded") return plan;
  return { ...plan, ...planData(checkpoint, finding, now) };
}

/** Stops the source only after the status contains the manifest digest, then waits for the TTL or the expiry. */
function planEnd(state: CheckpointState): CheckpointPlan {
  const { checkpoint, spec, now } = state;
  if ("problem" in spec) return { actions: [] };
  const stop = checkpoint.status?.phase === "Succeeded" ? stopSource(state) : [];
  const { completionTime } = checkpoint.status ?? {};
  if (completionTime === undefined) return { actions: stop };
  const { ttlMilliseconds = Infinity } = spec;
  const endsAt = Math.min(Date.parse(completionTime) + ttlMilliseconds, expiryOf(checkpoint)?.getTime() ?? Infinity);
  if (endsAt === Infinity) return { actions: stop };
  const leftMilliseconds = endsAt - now.getTime();
  if (leftMilliseconds <= 0) return { actions: [...stop, { do: "deleteCheckpoint" }] };
  return { actions: stop, requeueAfterMilliseconds: leftMilliseconds };
}

/** With `keepRunning: false` the source is paused since the capture. A source that has already ended needs no action. */
function stopSource({ spec, source }: CheckpointState): CheckpointAction[] {
  if ("problem" in spec || spec.keepRunning || !("pod" in source)) return [];
  return [{ do: "stopSource", source }];
}

function planRemoval(state: CheckpointState): CheckpointPlan {
  const { checkpoint, capture } = state;
  if (!(checkpoint.metadata.finalizers?.includes(finalizers.checkpoint) ?? false)) return { actions: [] };
  const wasTaken = capture?.state === "done" || checkpoint.status?.phase === "Succeeded";
  return {
    actions: [...(wasTaken ? stopSource(state) : []), { do: "removeData", status: terminating(state) }],
  };
}

/** @param earlier the checkpoint that is captured before */
function afterAnother(state: CheckpointState, earlier: Checkpoint, sandbox: string): CheckpointPlan {
  const first = earlier.metadata.name;
  // No user knows when the controllers take one.
  if (followsOthers(state.checkpoint) || isAutomatic(earlier)) return waiting(state, first);
  const what = `The checkpoint was not taken: ${first} of the sandbox ${sandbox} has not finished`;
  const hint = `Create another Checkpoint when ${first} has finished, or one with the annotation ${annotations.waitsTurn}: "true"`;
  return failed(state, new RametError("Conflict", what, { hint }));
}
