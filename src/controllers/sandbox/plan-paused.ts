import { RametError } from "../../api/errors.ts";
import { findCondition } from "../../kube/conditions.ts";
import type { SandboxPlan, SandboxState } from "./state.ts";
import { changed, failed } from "./status.ts";

/** The Pod goes; when it has gone the pause is in force; and then a resume may be asked for. */
export function planPaused(state: SandboxState): SandboxPlan {
  const { sandbox, pod, pauseCheckpoint, leftovers } = state;
  const tidyUp = leftovers.map((checkpoint) => ({ do: "deleteCheckpoint", checkpoint }) as const);
  if (pod !== undefined) {
    const going = pod.metadata.deletionTimestamp !== undefined;
    return { actions: [...(going ? [] : [{ do: "deletePod", pod } as const]), ...tidyUp] };
  }
  const condition = findCondition(sandbox.status?.conditions, "SandboxPaused");
  const withCheckpoint = condition?.reason === "CheckpointSucceeded" || condition?.reason === "SnapshotPauseSucceed";
  if (condition?.status !== "True") {
    const reason = withCheckpoint ? "SnapshotPauseSucceed" : "StopPauseSucceed";
    const message = withCheckpoint ? (condition?.message ?? "") : "Its memory and files are not kept";
    return {
      actions: tidyUp,
      status: changed(state, "Paused", { conditions: [{ type: "SandboxPaused", status: "True", reason, message }] }),
    };
  }
  if (sandbox.spec.paused === true) return { actions: tidyUp };
  if (withCheckpoint && pauseCheckpoint === undefined) {
    const error = new RametError(
      "CheckpointLost",
      "The sandbox cannot be resumed: the checkpoint of its pause is gone",
      {
        hint: "Delete the Sandbox, and create it anew from its template or from another checkpoint",
      },
    );
    return { actions: tidyUp, status: failed(state, error) };
  }
  return {
    actions: tidyUp,
    status: changed(state, "Resuming", {
      conditions: [{ type: "SandboxResumed", status: "False", reason: "CreatePod", message: "A Pod is being made" }],
    }),
  };
}
