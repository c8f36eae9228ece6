import type { EgressPolicy } from "../../api/wire/cell-api.ts";
import {
  effectiveEgress,
  egressDigest,
  type EffectiveEgress,
  type EgressHolder,
} from "../../api/egress/effective-egress.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { annotations } from "../../api/names/labels.ts";
import type { Pod } from "../../api/schema/pod.ts";
import type { ControllerParts } from "../cluster/controller-parts.ts";
import type { resolveTemplate } from "./resolve-template.ts";

export interface DesiredEgress extends EffectiveEgress {
  digest: string;
}

interface Levels {
  namespace: EgressHolder | undefined;
  /** @see egressTemplate */
  template: EgressHolder | undefined;
  sandbox: Sandbox;
}

/** The egress policy that a sandbox should have. */
export function desiredEgress(
  { namespace, template, sandbox }: Levels,
  { egress, clusterRanges, dns }: ControllerParts["podOptions"],
): DesiredEgress {
  const effective = effectiveEgress(
    { rules: egress, clusterRanges, clusterDomain: dns?.clusterDomain },
    namespace,
    template,
    sandbox.metadata,
  );
  return { ...effective, digest: egressDigest(effective.policy) };
}

/**
 * Where the rules of a sandbox's template are: in the template that it names or contains, so that changes apply to the running
 * sandbox. The Pod has the annotations and labels of the template that it was created from. It is used for a template that was
 * kept with a checkpoint, was deleted or is invalid.
 */
export function egressTemplate(
  template: ReturnType<typeof resolveTemplate>,
  pod: Pod | undefined,
): EgressHolder | undefined {
  const own = "problem" in template ? undefined : template;
  if (pod === undefined || own?.borrowed === false) return own?.template.metadata;
  return pod.metadata;
}

/** The digest of the policy that the sandbox's cell has: the last one that it was given, or the one that it started with. */
export function appliedEgress({ status }: Sandbox, pod: Pod | undefined): string {
  return status?.ramet?.egress ?? pod?.metadata.annotations?.[annotations.egressDigest] ?? initialDigest;
}

const initial: EgressPolicy = { default: "allow", allow: [], deny: [] };
/** The digest for Pods that were created before policies could be set. */
const initialDigest = egressDigest(initial);
