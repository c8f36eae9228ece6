import type { Checkpoint } from "../kinds/checkpoint.ts";
import type { PodTemplateSpec } from "../schema/pod-template.ts";
import { RametError } from "../../base/errors.ts";
import { capturedImage } from "../pod/resolved-image.ts";
import { restoreSpec, type RestoreSpec } from "../pod/restore-spec.ts";

/** Paths of volumes that only the clone has: they hide what files alone have there. */
export type HiddenFiles = readonly string[];

/** What a clone's template has that its checkpoint does not allow, or that hides captured files. */
export function compareTemplate(
  checkpoint: Checkpoint,
  template: PodTemplateSpec,
  memory: boolean,
): { mismatch?: RametError; hidden?: HiddenFiles } {
  const { checkpointId = "", ramet: { template: captured } = {} } = checkpoint.status ?? {};
  if (captured === undefined) return {};
  const own = memory ? restoreSpec(template) : specForFiles(checkpoint, template);
  const difference = templateDifference(captured, own, memory);
  const filesOn = memory ? undefined : captured.image;
  if (difference !== undefined) return { mismatch: mismatched(checkpointId, difference, filesOn) };
  return memory ? {} : { hidden: addedMounts(captured, own) };
}

/** The fields of a clone, with the captured name of its image if it is the captured image under another name. */
function specForFiles({ metadata, status }: Checkpoint, template: PodTemplateSpec): RestoreSpec {
  const own = restoreSpec(template);
  const image = status?.ramet?.template?.image;
  return image === undefined || capturedImage(metadata, template) === undefined ? own : { ...own, image };
}

function addedMounts(captured: RestoreSpec, own: RestoreSpec): string[] {
  const before = new Set(captured.mounts.map(({ target }) => target));
  return own.mounts.map(({ target }) => target).filter((target) => !before.has(target));
}

/** @param filesOn the image of files without memory */
function mismatched(id: string, difference: TemplateDifference, filesOn: string | undefined): RametError {
  const what = `The sandbox cannot be restored from the checkpoint ${id}: ${describeDifference(difference)}`;
  return new RametError("TemplateMismatch", what, {
    hint:
      filesOn === undefined
        ? "Give the sandbox the template of the checkpoint's source, or omit spec.template to use that template"
        : `Its files are on top of the image ${filesOn}: use a template with that image and a writable root, or omit spec.template`,
  });
}

interface TemplateDifference {
  /** The path in a Pod template: `containers[0].args[2]`. */
  field: string;
  /** The value in the checkpoint's template; undefined: not set. */
  checkpoint: string | number | boolean | undefined;
  /** The value in the clone's template. */
  clone: string | number | boolean | undefined;
}

/**
 * The first field in which a clone's template differs from its checkpoint's; undefined when it can be restored.
 * @param memory whether memory is restored. Files alone start under any template with the same image, and a writable
 *   root unless the captured one was read-only
 */
export function templateDifference(
  checkpoint: RestoreSpec,
  clone: RestoreSpec,
  memory: boolean,
): TemplateDifference | undefined {
  // Files of a read-only root are not changed by a writable one.
  const isWritable = !memory && checkpoint.readOnlyRoot && !clone.readOnlyRoot;
  const captured = isWritable ? { ...checkpoint, readOnlyRoot: false } : checkpoint;
  const [before, after] = [captured, clone].map(memory ? fields : fieldsOfFiles) as [Fields, Fields];
  const field = [...before.keys(), ...after.keys()].find((key) => before.get(key) !== after.get(key));
  return field === undefined ? undefined : { field, checkpoint: before.get(field), clone: after.get(field) };
}

/** The difference as the middle of a sentence: `containers[0].image is "a" in the checkpoint and "b" here`. */
export function describeDifference({ field, checkpoint, clone }: TemplateDifference): string {
  return `${field} is ${shown(checkpoint)} in the checkpoint and ${shown(clone)} here`;
}

type Fields = Map<string, TemplateDifference["clone"]>;

const container = "containers[0]";

function fieldsOfFiles({ image, readOnlyRoot }: RestoreSpec): Fields {
  return new Map<string, TemplateDifference["clone"]>([
    [`${container}.image`, image],
    [`${container}.securityContext.readOnlyRootFilesystem`, readOnlyRoot],
  ]);
}

/** All compared values by their path in a Pod template, the most important first. */
function fields(spec: RestoreSpec): Fields {
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
