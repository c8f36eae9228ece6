import { createHash } from "node:crypto";
import * as z from "zod";
import { defined } from "../../base/defined.ts";
import { EmptyDir, type ContainerSpec } from "../wire/cell-api.ts";
import { containerSpec } from "./container-spec.ts";
import type { PodTemplateSpec } from "../schema/pod-template.ts";
import { canonicalJson } from "../../base/canonical-json.ts";
import { atomicList } from "../schema/rules.ts";
import { digestOf } from "../schema/digest.ts";
import { annotations, restoreFromAnnotations } from "../names/labels.ts";

const StringList = atomicList(z.string());

/**
 * The fields that must be equal in the templates of a clone and its checkpoint. On a restore gVisor compares args, cwd, user,
 * mounts (without their sources, but with emptyDir annotations) and the read-only root (runsc/specutils/restore.go). It accepts
 * another environment, host name and resources. The image must be equal because programs in memory have its files open.
 */
export const RestoreSpec = z.object({
  image: z.string().describe("The image of the container."),
  command: StringList.describe("The command of the container."),
  args: StringList.describe("The arguments of the command."),
  workingDir: z.string().optional().describe("The working directory."),
  user: z
    .object({ uid: z.int().describe("The user id."), gid: z.int().describe("The group id.") })
    .describe("The user of the entrypoint."),
  readOnlyRoot: z.boolean().describe("Whether the root file system is read-only."),
  mounts: atomicList(
    z.object({
      target: z.string().describe("Where the volume is mounted."),
      readOnly: z.boolean().describe("Whether the mount is read-only."),
      emptyDir: EmptyDir.optional().describe("Set if the volume is an emptyDir."),
    }),
  ).describe("The mounts of the container, sorted by target."),
});
export type RestoreSpec = z.infer<typeof RestoreSpec>;

/** @throws RametError `InvalidArgument` as {@link containerSpec} does */
export function restoreSpec(template: PodTemplateSpec): RestoreSpec {
  return comparedParts(containerSpec(template).spec);
}

export function comparedParts(container: Omit<ContainerSpec, "env">): RestoreSpec {
  const { image, command, args, workingDir, user, readOnlyRoot, mounts } = container;
  return {
    image,
    command,
    args,
    ...defined({ workingDir }),
    user,
    readOnlyRoot,
    mounts: mounts.map(({ target, readOnly, emptyDir }) => defined({ target, readOnly, emptyDir })),
  };
}

/**
 * Returns the digest of the fields that must be equal to restore a checkpoint of one template with another one
 * ({@link restoreSpec}). `template-difference.ts` names the different fields.
 * @throws RametError `InvalidArgument` for a template that is not valid for a sandbox
 */
export function templateDigest(template: PodTemplateSpec): string {
  return digestOf(restoreSpec(template));
}

/**
 * Returns the revision of a template, for `status.updateRevision` and the Pod label `pod-template-hash`: a hash of nine
 * characters over the whole template. Other controllers compute other values.
 */
export function templateRevision(template: unknown): string {
  // Kubernetes' "safe" alphabet without vowels, so that no revision reads as a word.
  const alphabet = "bcdfghjklmnpqrstvwxz2456789";
  const bytes = createHash("sha256").update(canonicalJson(template)).digest();
  return [...bytes.subarray(0, 9)].map((byte) => alphabet[byte % alphabet.length]).join("");
}

/**
 * Removes the annotations about the origin: a clone of a clone is restored from its own checkpoint, not from the first one, and what
 * was requested for the volumes of one says nothing about the other.
 */
export function withoutOrigin(template: PodTemplateSpec): PodTemplateSpec {
  const kept = Object.entries(template.metadata?.annotations ?? {}).filter(
    ([key]) => key !== annotations.volumesOnRestore && !(restoreFromAnnotations as readonly string[]).includes(key),
  );
  return { ...template, metadata: { ...template.metadata, annotations: Object.fromEntries(kept) } };
}
