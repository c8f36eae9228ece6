import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { hasFailed, isCloneable } from "../../api/state/checkpoint.ts";
import { errorOf, problemIn } from "../../api/state/problem.ts";
import type { RametError } from "../../base/errors.ts";
import { heldFrom } from "../cluster/pause-checkpoint.ts";
import { finalizer, slowly } from "./plan-start.ts";
import type { SandboxPlan, SandboxState } from "./state.ts";
import { changed, failed } from "./status.ts";

/**
 * A sandbox that is created with both `spec.paused` and a checkpoint to restore from becomes Paused without a Pod. A Checkpoint of its
 * own shares the data, so that the other one may be deleted, and a resume continues as that of any paused sandbox.
 *
 * Undefined: the sandbox starts, and is paused when it runs. Missing objects are reported there.
 */
export function planCreatedPaused(state: SandboxState): SandboxPlan | undefined {
  const { sandbox, pod, template, origin, pauseCheckpoint } = state;
  if (pod !== undefined) return undefined;
  const id = pauseCheckpoint && heldFrom(pauseCheckpoint);
  // As any pause, it completes once it has begun.
  if (pauseCheckpoint !== undefined && id !== undefined) return planHeld(state, { held: pauseCheckpoint, id });
  if (sandbox.spec.paused !== true || origin.kind !== "checkpoint" || "problem" in template) return undefined;
  const [first] = finalizer(state, template);
  if (first !== undefined) return { actions: [first] };
  const { source } = origin;
  const { shared } = state.volumes;
  const persistentContents = source.parts.flatMap(({ contents }) => contents);
  return {
    actions: [
      ...(shared.length > 0 ? [{ do: "shareClaims", claims: shared } as const] : []),
      { do: "createPauseCheckpoint", persistentContents, stored: { source } },
    ],
  };
}

function planHeld(state: SandboxState, { held, id }: { held: Checkpoint; id: string }): SandboxPlan {
  if (hasFailed(held)) return { actions: [], status: failed(state, notHeld(id, held)) };
  if (!isCloneable(held)) return slowly(state, `The data of the checkpoint ${id} is being looked up`);
  const message = `The sandbox continues from the checkpoint ${id} when it is resumed`;
  const status = changed(state, "Paused", {
    conditions: [{ type: "SandboxPaused", status: "True", reason: "SnapshotPauseSucceed", message }],
    drop: ["Ready"],
  });
  return { actions: [], status: { ...status, ramet: { ...status.ramet, restoredFrom: id } } };
}

/** The Checkpoint that would share the data of `id` has failed. */
export function notHeld(id: string, { status }: Checkpoint): RametError {
  const problem = problemIn(status) ?? { code: "CheckpointLost", cause: status?.message ?? "no reason given" };
  return errorOf(problem, `The checkpoint ${id} cannot be used`);
}
