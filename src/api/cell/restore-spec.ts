import * as z from "zod";
import { EmptyDir, type ContainerSpec } from "./cell-api.ts";
import { containerSpec } from "./container-spec.ts";
import type { PodTemplateSpec } from "../schema/pod-template.ts";

const StringList = z.array(z.string()).meta({ "x-kubernetes-list-type": "atomic" });

/**
 * What a clone's template must have equal to its checkpoint's. gVisor compares args, cwd, user, mounts (without their
 * sources, with the hints of those that it keeps itself) and the read-only root at a restore (runsc/specutils/restore.go) and takes another environment, host name and
 * resources; the image is compared because the files that memory has open come from it.
 */
export const RestoreSpec = z.object({
  image: z.string(),
  command: StringList,
  args: StringList,
  workingDir: z.string().optional(),
  user: z.object({ uid: z.int(), gid: z.int() }),
  readOnlyRoot: z.boolean(),
  /** By target. */
  mounts: z
    .array(z.object({ target: z.string(), readOnly: z.boolean(), emptyDir: EmptyDir.optional() }))
    .meta({ "x-kubernetes-list-type": "atomic" }),
});
export type RestoreSpec = z.infer<typeof RestoreSpec>;

/** @throws RametError `InvalidArgument` as {@link containerSpec} does */
export function restoreSpec(template: PodTemplateSpec): RestoreSpec {
  return comparedParts(containerSpec(template).spec);
}

/** Of a container, what a restore compares. */
export function comparedParts(container: Omit<ContainerSpec, "env">): RestoreSpec {
  const { image, command, args, workingDir, user, readOnlyRoot, mounts } = container;
  return {
    image,
    command,
    args,
    ...(workingDir !== undefined && { workingDir }),
    user,
    readOnlyRoot,
    mounts: mounts.map(({ target, readOnly, emptyDir }) => ({ target, readOnly, ...(emptyDir && { emptyDir }) })),
  };
}
