import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { RametError } from "../../base/errors.ts";
import type { PodTemplateSpec } from "../../api/schema/pod-template.ts";
import { restoreSpec } from "../../api/cell/restore-spec.ts";
import { describeDifference, templateDifference } from "./template-difference.ts";
import type { Origin } from "./state.ts";

/** Whether, and from what, a sandbox of this template can be restored from this checkpoint. */
export function originFrom(checkpoint: Checkpoint, template: PodTemplateSpec | undefined): Origin {
  const { metadata, status } = checkpoint;
  const checkpointId = status?.checkpointId ?? "";
  const unusable = endOf(checkpoint);
  if (unusable !== undefined) return impossible(notCloneable(checkpoint, `it ${unusable}`));
  if (status?.phase !== "Succeeded") {
    return { kind: "waiting", message: `Waiting for the checkpoint ${metadata.name} to succeed` };
  }
  const { manifestDigest, contents, template: captured } = status.ramet ?? {};
  if (manifestDigest === undefined || contents === undefined) return impossible(unrecorded(checkpointId));
  const mismatch = captured && template && templateDifference(captured, restoreSpec(template));
  if (mismatch !== undefined) return impossible(mismatched(checkpointId, describeDifference(mismatch)));
  const handle = { namespace: metadata.namespace, checkpointId };
  return { kind: "checkpoint", source: { handle, manifestDigest, contents } };
}

function endOf({ metadata, status }: Checkpoint): string | undefined {
  if (status?.phase === "Failed") return "has failed";
  const isGoing = status?.phase === "Terminating" || metadata.deletionTimestamp !== undefined;
  return isGoing ? "is being deleted" : undefined;
}

function notCloneable({ metadata, status }: Checkpoint, why: string): RametError {
  const what = `The checkpoint ${status?.checkpointId ?? ""} (${metadata.name}) cannot be cloned: ${why}`;
  return new RametError("CheckpointNotReady", what, {
    hint: "Take another checkpoint of the source, and restore from that",
  });
}

function unrecorded(id: string): RametError {
  return new RametError("CheckpointLost", `The checkpoint ${id} cannot be cloned: Ramet has no record of its data`, {
    hint: "It may have been taken by another controller; take it again with Ramet",
  });
}

function mismatched(id: string, difference: string): RametError {
  return new RametError("TemplateMismatch", `The sandbox cannot be restored from the checkpoint ${id}: ${difference}`, {
    hint: "Give the sandbox the template of the checkpoint's source, or leave spec.template out to take that",
  });
}

/** For an id that no Checkpoint of the namespace has. `named`: a Checkpoint that has it as its name. */
export function unknownCheckpoint(namespace: string, id: string, named: Checkpoint | undefined): Origin {
  const own = named?.status?.checkpointId;
  return impossible(
    new RametError("NotFound", `No checkpoint in the namespace ${namespace} has the id ${id}`, {
      hint:
        own === undefined
          ? `List the ids with: ramet checkpoint ls -n ${namespace}`
          : `The Checkpoint of that name has the id ${own}: restore from that`,
    }),
  );
}

function impossible(error: RametError): Origin {
  return { kind: "impossible", error };
}
