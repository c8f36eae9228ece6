import { RametError } from "../../base/errors.ts";
import { finalizers } from "../../api/names/labels.ts";
import type { CheckpointRecord } from "../../backends/checkpoint-record.ts";
import { capturedPodUid } from "../common/pause-checkpoint.ts";
import type { CheckpointAction, CheckpointPlan, CheckpointState, Source } from "./state.ts";

/** What to do about a checkpoint: a pure function of what is known. The rules stand in docs/reference/controllers.md. */
export function planCheckpoint(state: CheckpointState): CheckpointPlan {
  const { metadata, status } = state.checkpoint;
  const isFinished = status?.phase === "Succeeded" || status?.phase === "Failed";
  if (metadata.deletionTimestamp !== undefined && !isBeingCaptured(state)) return planRemoval(state);
  return isFinished ? planFinished(state) : planCapture(state);
}

/** A cut that has begun is brought to its end, also when the Checkpoint was deleted meanwhile. */
function isBeingCaptured({ checkpoint, capture, source }: CheckpointState): boolean {
  if (capture !== undefined) return capture.state === "running";
  return checkpoint.status?.phase === "Creating" && capturedPodUid(checkpoint) !== undefined && !("problem" in source);
}

function planCapture(state: CheckpointState): CheckpointPlan {
  const { checkpoint, capture, source, earlierCapture, spec } = state;
  if (capture?.state === "done") return succeeded(state, capture.value);
  if (capture?.state === "failed") return failed(state, capture.error);
  if (capture?.state === "running") return { actions: giveUp(source) };
  if ("problem" in spec) return failed(state, spec.problem);
  if ("problem" in source) {
    const wasStarted = capturedPodUid(checkpoint) !== undefined;
    return wasStarted
      ? { actions: [{ do: "findPublished", otherwise: source.problem }] }
      : failed(state, source.problem);
  }
  if (earlierCapture !== undefined) return failed(state, tooMany(earlierCapture.metadata.name, spec.sandboxName));
  return { actions: [{ do: "startCapture", source, spec }] };
}

/** A cell that has ended never answers; what it had published before is found. */
function giveUp(source: Source): CheckpointAction[] {
  return "problem" in source && source.hasEnded ? [{ do: "findPublished", otherwise: source.problem }] : [];
}

function succeeded(state: CheckpointState, record: CheckpointRecord): CheckpointPlan {
  const { checkpoint, checkpointId, now } = state;
  return {
    actions: [],
    status: {
      ...withoutMessage(checkpoint),
      phase: "Succeeded",
      checkpointId,
      completionTime: checkpoint.status?.completionTime ?? now.toISOString(),
      ramet: record,
    },
    transitions: [
      { type: "Normal", reason: "CheckpointSucceeded", action: "Checkpoint", note: `Its id is ${checkpointId}` },
    ],
  };
}

function withoutMessage({ status }: CheckpointState["checkpoint"]) {
  const { message: _, ...rest } = status ?? {};
  return rest;
}

function failed({ checkpoint, checkpointId, now }: CheckpointState, error: RametError): CheckpointPlan {
  const message = error.describe();
  return {
    actions: [],
    status: {
      ...checkpoint.status,
      phase: "Failed",
      message,
      checkpointId,
      completionTime: checkpoint.status?.completionTime ?? now.toISOString(),
    },
    transitions: [{ type: "Warning", reason: "CheckpointFailed", action: "Checkpoint", note: message }],
  };
}

/** The source ends only now that the status has the manifest's digest; then the TTL runs. */
function planFinished(state: CheckpointState): CheckpointPlan {
  const { checkpoint, spec, now } = state;
  if ("problem" in spec) return { actions: [] };
  const stop = checkpoint.status?.phase === "Succeeded" ? endSource(state) : [];
  const { completionTime } = checkpoint.status ?? {};
  if (spec.ttlMilliseconds === undefined || completionTime === undefined) return { actions: stop };
  const leftMilliseconds = new Date(completionTime).getTime() + spec.ttlMilliseconds - now.getTime();
  if (leftMilliseconds <= 0) return { actions: [...stop, { do: "deleteCheckpoint" }] };
  return { actions: stop, requeueAfterMilliseconds: leftMilliseconds };
}

/** For `keepRunning: false`: the source stands still since the cut. One that has ended already is left alone. */
function endSource({ spec, source }: CheckpointState): CheckpointAction[] {
  if ("problem" in spec || spec.keepRunning || "problem" in source) return [];
  return [{ do: "stopSource", source }];
}

function planRemoval(state: CheckpointState): CheckpointPlan {
  const { checkpoint, capture } = state;
  if (!(checkpoint.metadata.finalizers?.includes(finalizers.checkpoint) ?? false)) return { actions: [] };
  const wasTaken = capture?.state === "done" || checkpoint.status?.phase === "Succeeded";
  return {
    actions: [...(wasTaken ? endSource(state) : []), { do: "removeData" }],
    status: { ...checkpoint.status, phase: "Terminating" },
  };
}

function tooMany(first: string, sandbox: string): RametError {
  return new RametError("Conflict", `The checkpoint was not taken: ${first} of the sandbox ${sandbox} is unfinished`, {
    hint: `Create another Checkpoint when ${first} has ended`,
  });
}
