import type { Checkpoint } from "../../api/checkpoint.ts";
import { RametError } from "../../api/errors.ts";
import type { PodTemplateSpec } from "../../api/pod-template.ts";
import { restoreSpec } from "../../api/restore-spec.ts";
import { describeDifference, templateDifference } from "../../api/template-difference.ts";
import type { Origin } from "./state.ts";

/** Whether, and from what, a sandbox of this template can be restored from this checkpoint. */
export function originFrom(checkpoint: Checkpoint, template: PodTemplateSpec | undefined): Origin {
  const { metadata, status } = checkpoint;
  const id = status?.checkpointId ?? "";
  if (status?.phase === "Failed" || status?.phase === "Terminating" || metadata.deletionTimestamp !== undefined) {
    const state = status?.phase === "Failed" ? "has failed" : "is being deleted";
    return impossible(
      new RametError("CheckpointNotReady", `The checkpoint ${id} (${metadata.name}) cannot be cloned: it ${state}`, {
        hint: "Take another checkpoint of the source, and restore from that",
      }),
    );
  }
  if (status?.phase !== "Succeeded") {
    return { kind: "waiting", message: `Waiting for the checkpoint ${metadata.name} to succeed` };
  }
  const { manifestDigest, contents, template: captured } = status.ramet ?? {};
  if (manifestDigest === undefined || contents === undefined) {
    return impossible(
      new RametError("CheckpointLost", `The checkpoint ${id} cannot be cloned: Ramet has no record of its data`, {
        hint: "It may have been taken by another controller; take it again with Ramet",
      }),
    );
  }
  const mismatch = captured && template && templateDifference(captured, restoreSpec(template));
  if (mismatch !== undefined) {
    return impossible(
      new RametError(
        "TemplateMismatch",
        `The sandbox cannot be restored from the checkpoint ${id}: ${describeDifference(mismatch)}`,
        { hint: "Give the sandbox the template of the checkpoint's source, or leave spec.template out to take that" },
      ),
    );
  }
  const handle = { namespace: metadata.namespace, checkpointId: id };
  return { kind: "checkpoint", source: { handle, manifestDigest, contents } };
}

/** For an id that no Checkpoint of the namespace has. `named`: a Checkpoint that has it as its name. */
export function unknownCheckpoint(namespace: string, id: string, named: Checkpoint | undefined): Origin {
  const own = named?.status?.checkpointId;
  return impossible(
    new RametError("NotFound", `No checkpoint in the namespace ${namespace} has the id ${id}`, {
      hint:
        own === undefined
          ? `List the ids with: kubectl get checkpoints -n ${namespace} -o custom-columns=NAME:.metadata.name,ID:.status.checkpointId`
          : `The Checkpoint of that name has the id ${own}: restore from that`,
    }),
  );
}

function impossible(error: RametError): Origin {
  return { kind: "impossible", error };
}
