import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { labels } from "../../api/names/labels.ts";
import { pauseFailure } from "../../operations/pause.ts";

/** The state of a sandbox for its clients. `ended`: it failed or exited, and nothing brings it back but a rollback. */
export type ClientState = "starting" | "running" | "snapshotting" | "pausing" | "paused" | "ended" | "killing";

/** @param checkpoints those of the sandbox */
export function stateOf(sandbox: Sandbox, checkpoints: readonly Checkpoint[] = []): ClientState {
  const { metadata, spec, status } = sandbox;
  if (metadata.deletionTimestamp !== undefined) return "killing";
  const phase = status?.phase;
  if (phase === "Failed" || phase === "Succeeded") return "ended";
  // After a failed pause it runs, but nothing pauses it again before it is resumed.
  if (spec.paused === true) return phase === "Paused" || pauseFailure(sandbox) !== undefined ? "paused" : "pausing";
  if (phase !== "Running") return "starting";
  return checkpoints.some(isUnfinished) ? "snapshotting" : "running";
}

/** Whether a checkpoint is being captured for a client. Those of pauses belong to the pause. */
export function isUnfinished({ metadata, status }: Checkpoint): boolean {
  if (metadata.labels?.[labels.purpose] === "pause") return false;
  return status?.phase !== "Succeeded" && status?.phase !== "Failed";
}

/** Whether clients see a sandbox: not the stock of a set, nor the sandbox of a build. */
export function isForClients({ metadata }: Sandbox): boolean {
  return metadata.labels?.[labels.sandboxClaimed] !== "false" && metadata.labels?.[labels.purpose] === undefined;
}
