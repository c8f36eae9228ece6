import { isUnfinished } from "../common/pause-checkpoint.ts";
import type { SandboxPlan, SandboxState } from "./state.ts";
import { changed, type ConditionChange } from "./status.ts";

/**
 * From Running to Paused. With a checkpoint, the phase moves when that has succeeded, so that a pause that fails leaves
 * the sandbox running as it was; with the strategy Stop it moves at once.
 */
export function planPausing(state: SandboxState): SandboxPlan {
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
