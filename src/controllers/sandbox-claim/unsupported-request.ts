import { RametError } from "../../base/errors.ts";
import type { SandboxClaimSpec } from "../../api/kinds/sandbox-claim.ts";

/**
 * What a claim asks for that the reference does to a sandbox that runs, and Ramet cannot: an error that names each such field
 * and what to do instead. A field that is there and asks for nothing is no wish.
 */
export function unsupportedWish({ inplaceUpdate, dynamicVolumesMount = [] }: SandboxClaimSpec): RametError | undefined {
  const { image, resources } = inplaceUpdate ?? {};
  const quantities = { ...resources?.requests, ...resources?.limits };
  const refusals = [
    ...(image === undefined ? [] : [otherImage(image)]),
    ...(Object.keys(quantities).length === 0 ? [] : [otherResources]),
    ...(dynamicVolumesMount.length === 0 ? [] : [moreVolumes(dynamicVolumesMount.map(({ mountPath }) => mountPath))]),
  ];
  if (refusals.length === 0) return undefined;
  return new RametError("InvalidArgument", refusals.map(({ why }) => why).join("; "), {
    hint: refusals.map(({ instead }) => instead).join(". "),
  });
}

interface Refusal {
  why: string;
  instead: string;
}

function otherImage(image: string): Refusal {
  return {
    why: "spec.inplaceUpdate.image cannot be had: the image is the root of a sandbox, which runs before it is claimed",
    instead: `Make a SandboxSet with the image ${image}, and claim from that`,
  };
}

const otherResources: Refusal = {
  why: "spec.inplaceUpdate.resources cannot be had: a sandbox has its limits from its start",
  instead: "Set the resources in the template of a SandboxSet, and claim from that",
};

function moreVolumes(mountPaths: readonly string[]): Refusal {
  return {
    why: "spec.dynamicVolumesMount cannot be had: a sandbox has its mounts from its start, and its checkpoints need the same",
    instead: `Name the volumes in volumes[] and volumeMounts[] of a SandboxSet's template, at ${mountPaths.join(", ")}, and claim from that`,
  };
}
