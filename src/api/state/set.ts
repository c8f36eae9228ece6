import type { SandboxSet } from "../kinds/sandbox-set.ts";
import { conditionOf, hasObserved } from "./problem.ts";

/**
 * What the status of a set means:
 * - `waiting`: the controllers have not processed its current spec.
 * - `filling`: sandboxes are being created, or replaced by those of the current revision.
 * - `ready`: its sandboxes are available, and of the current revision.
 * - `failing`: its sandboxes do not start, or its spec cannot be followed. The controllers keep trying.
 */
export interface SetState {
  is: "waiting" | "filling" | "ready" | "failing";
  /** The reason of the condition that is not as requested; empty if all are. */
  reason: string;
  message: string;
}

/** @param generation the generation that the controllers must have seen. @default the current one */
export function setState(set: SandboxSet, generation = set.metadata.generation): SetState {
  const conditions = ["Ready", "Updated"].map((type) => conditionOf(set, type) ?? unknown);
  const wrong = conditions.find(({ status }) => status !== "True");
  if (!hasObserved(set, generation)) return { is: "waiting", reason: "", message: "" };
  if (wrong === undefined) return { is: "ready", reason: "", message: "" };
  const { type, status, reason, message } = wrong;
  const isFailing = type === "Ready" && status === "False" && !passing.has(reason);
  return { is: isFailing ? "failing" : "filling", reason, message };
}

const unknown = { type: "", status: "Unknown", reason: "", message: "" };

/** `CheckpointNotReady`: the named snapshot that it follows has no version yet. */
const passing: ReadonlySet<string> = new Set(["Filling", "CheckpointNotReady"]);

/** Whether the set has exactly the requested number of sandboxes, and all are ready: also after its number was reduced. */
export function hasExactStock({ metadata, spec, status }: SandboxSet): boolean {
  return (
    status?.observedGeneration === metadata.generation &&
    status?.availableReplicas === spec.replicas &&
    status.replicas === spec.replicas
  );
}
