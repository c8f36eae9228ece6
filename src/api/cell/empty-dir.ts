import { z } from "zod";
import type { EmptyDir } from "./cell-api.ts";
import type { Container, PodTemplateSpec } from "../schema/pod-template.ts";
import { quantityToBytes } from "../../base/quantity.ts";

type VolumeMount = NonNullable<Container["volumeMounts"]>[number];

/**
 * The emptyDir behind a mount of the sandbox's container, if it is the sandbox's alone. What another container of the Pod
 * mounts too, an init container that fills it or a sidecar, stays a folder of the Pod; so does one that is mounted twice,
 * by sub-path say, and one that is mounted read-only.
 * @throws RametError `InvalidArgument` for a `sizeLimit` that is no quantity
 */
export function ownEmptyDir({ spec }: PodTemplateSpec, { name, readOnly }: VolumeMount): EmptyDir | undefined {
  const volume = spec.volumes?.find((one) => one.name === name);
  if (readOnly === true || volume?.["emptyDir"] === undefined || mountCount({ spec }, name) !== 1) return undefined;
  const { sizeLimit } = Source.parse(volume["emptyDir"] ?? {});
  if (sizeLimit === undefined) return {};
  const sizeLimitBytes = quantityToBytes(sizeLimit, `spec.template.spec.volumes[${name}].emptyDir.sizeLimit`);
  // Kubernetes takes a limit of zero for none.
  return sizeLimitBytes > 0 ? { sizeLimitBytes } : {};
}

const Source = z.looseObject({ sizeLimit: z.union([z.string(), z.number()]).optional() });

/** Over all containers of the Pod: each can mount a volume any number of times. */
function mountCount({ spec }: PodTemplateSpec, volumeName: string): number {
  return [...spec.containers, ...(spec.initContainers ?? [])]
    .flatMap((container) => Mounts.parse(container).volumeMounts)
    .filter(({ name }) => name === volumeName).length;
}

const Mounts = z.looseObject({ volumeMounts: z.array(z.looseObject({ name: z.string() })).default([]) });
