import { restoreSpec, type RestoreSpec } from "../../api/cell/restore-spec.ts";
import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import type { PodTemplateSpec } from "../../api/schema/pod-template.ts";
import { RametError } from "../../base/errors.ts";
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

interface TemplateDifference {
  /** As it stands in a Pod template: `containers[0].args[2]`. */
  field: string;
  /** In the checkpoint's template; undefined: not there. */
  checkpoint: string | number | boolean | undefined;
  /** In the clone's. */
  clone: string | number | boolean | undefined;
}

/** The first field in which a clone's template differs from its checkpoint's; undefined when it can be restored. */
export function templateDifference(checkpoint: RestoreSpec, clone: RestoreSpec): TemplateDifference | undefined {
  const before = fields(checkpoint);
  const after = fields(clone);
  const field = [...before.keys(), ...after.keys()].find((key) => before.get(key) !== after.get(key));
  return field === undefined ? undefined : { field, checkpoint: before.get(field), clone: after.get(field) };
}

/** The difference as the middle of a sentence: `containers[0].image is "a" in the checkpoint and "b" here`. */
export function describeDifference({ field, checkpoint, clone }: TemplateDifference): string {
  return `${field} is ${shown(checkpoint)} in the checkpoint and ${shown(clone)} here`;
}

/** Every leaf under the name that it has in a Pod template, in the order in which a reader should hear of them. */
function fields(spec: RestoreSpec): Map<string, TemplateDifference["clone"]> {
  const container = "containers[0]";
  return new Map<string, TemplateDifference["clone"]>([
    [`${container}.image`, spec.image],
    ...spec.command.map((item, index) => [`${container}.command[${index}]`, item] as const),
    ...spec.args.map((item, index) => [`${container}.args[${index}]`, item] as const),
    [`${container}.workingDir`, spec.workingDir],
    [`${container}.securityContext.runAsUser`, spec.user.uid],
    [`${container}.securityContext.runAsGroup`, spec.user.gid],
    [`${container}.securityContext.readOnlyRootFilesystem`, spec.readOnlyRoot],
    ...spec.mounts.flatMap(({ target, readOnly, emptyDir }) => [
      [`${container}.volumeMounts[${target}].mountPath`, target] as const,
      [`${container}.volumeMounts[${target}].readOnly`, readOnly] as const,
      [`the own emptyDir of ${container}.volumeMounts[${target}]`, emptyDir !== undefined] as const,
      [`the emptyDir.sizeLimit of ${container}.volumeMounts[${target}]`, emptyDir?.sizeLimitBytes] as const,
    ]),
  ]);
}

function shown(value: TemplateDifference["clone"]): string {
  return value === undefined ? "not set" : JSON.stringify(value);
}
