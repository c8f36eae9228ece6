import { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { RametError } from "../../base/errors.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { findObject } from "../object/user-kind.ts";

/**
 * The id of the checkpoint with this name or id. A text that names no Checkpoint of the namespace is returned as it is: it may
 * be a named snapshot, which the controllers resolve.
 *
 * @throws RametError `CheckpointNotReady` if the checkpoint has no id yet
 */
export async function checkpointReference(cluster: Cluster, text: string, signal: AbortSignal): Promise<string> {
  try {
    const checkpoint = Checkpoint.parse(await findObject(cluster, "checkpoint", text, signal));
    if (checkpoint.status?.checkpointId !== undefined) return checkpoint.status.checkpointId;
    throw new RametError(
      "CheckpointNotReady",
      `Cannot use the checkpoint ${text}: its capture has not started, so it has no id yet`,
      {
        hint: `See its state with: ramet checkpoint get ${text}`,
      },
    );
  } catch (error) {
    if (RametError.from(error).code !== "NotFound") throw error;
    return text;
  }
}
