import type { RestoreSpec } from "../../api/cell/restore-spec.ts";

interface TemplateDifference {
  /** The path in a Pod template: `containers[0].args[2]`. */
  field: string;
  /** The value in the checkpoint's template; undefined: not set. */
  checkpoint: string | number | boolean | undefined;
  /** The value in the clone's template. */
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

/** Every leaf by its path in a Pod template, the most important first. */
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
