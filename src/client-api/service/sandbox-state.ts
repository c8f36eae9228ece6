import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { labels } from "../../api/names/labels.ts";
import { isPauseCheckpoint, isUnfinished } from "../../api/state/checkpoint.ts";
import { pauseFailure, sandboxState } from "../../api/state/sandbox.ts";

/** The state of a sandbox for its clients. `ended`: it failed or exited, and nothing brings it back but a rollback. */
export type ClientState = "starting" | "running" | "snapshotting" | "pausing" | "paused" | "ended" | "killing";

/** @param checkpoints those of the sandbox */
export function stateOf(sandbox: Sandbox, checkpoints: readonly Checkpoint[] = []): ClientState {
  if (sandbox.metadata.deletionTimestamp !== undefined) return "killing";
  const { is } = sandboxState(sandbox);
  if (is === "ended") return "ended";
  // After a failed pause it runs, but nothing pauses it again before it is resumed.
  if (sandbox.spec.paused === true)
    return is === "paused" || pauseFailure(sandbox) !== undefined ? "paused" : "pausing";
  if (is === "starting") return "starting";
  return checkpoints.some(isCapturing) ? "snapshotting" : "running";
}

/** Whether a sandbox is being captured for a client. The checkpoints of pauses belong to the pause. */
export function isCapturing(checkpoint: Checkpoint): boolean {
  return isUnfinished(checkpoint) && !isPauseCheckpoint(checkpoint);
}

/** Whether clients see a sandbox: not the stock of a set, nor the sandbox of a build. */
export function isForClients({ metadata }: Sandbox): boolean {
  return metadata.labels?.[labels.sandboxClaimed] !== "false" && metadata.labels?.[labels.purpose] === undefined;
}
