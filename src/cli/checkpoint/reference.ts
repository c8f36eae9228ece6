import { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { RametError } from "../../base/errors.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { findObject } from "../object/find.ts";

/**
 * What controllers understand as the checkpoint that a person means by its name or id. What is no Checkpoint of the namespace may
 * be a named snapshot: the controllers know, and say so if it is neither.
 * @throws RametError `CheckpointNotReady` for one that has no id yet
 */
export async function checkpointReference(cluster: Cluster, text: string, signal: AbortSignal): Promise<string> {
  try {
    const checkpoint = Checkpoint.parse(await findObject(cluster, "checkpoint", text, signal));
    if (checkpoint.status?.checkpointId !== undefined) return checkpoint.status.checkpointId;
    throw new RametError("CheckpointNotReady", `The checkpoint ${text} has not begun, and so has no id yet`, {
      hint: `Look with: ramet checkpoint get ${text}`,
    });
  } catch (error) {
    if (RametError.from(error).code !== "NotFound") throw error;
    return text;
  }
}
