import type { SandboxSet } from "../../api/kinds/sandbox-set.ts";
import { restoreFromAnnotations } from "../../api/names/labels.ts";
import { acsCloneAnnotations } from "../../backends/acs/acs-clone.ts";

/** On a set, or on its template until the controllers have moved it to the set: a named snapshot or a checkpoint id. */
const [rametRestoreFrom] = restoreFromAnnotations;

/** The named snapshot or checkpoint id that a set follows; undefined: none. */
export function followedBy({ metadata, spec }: SandboxSet): string | undefined {
  const inTemplate = templateAnnotations(spec.template)[rametRestoreFrom];
  const text = inTemplate ?? metadata.annotations?.[rametRestoreFrom];
  return typeof text === "string" && text !== "" ? text : undefined;
}

/**
 * The merge patch that makes the sandboxes of a set clones of a checkpoint; undefined if they are. Their controllers read the id on
 * the template and roll the set when it changes. They would copy the name to each sandbox, so it moves to the set itself.
 */
export function followPatch(set: SandboxSet, followed: string, checkpointId: string): object | undefined {
  const own = templateAnnotations(set.spec.template);
  const wanted = acsCloneAnnotations(checkpointId);
  const isSet = Object.entries(wanted).every(([key, value]) => own[key] === value);
  if (isSet && own[rametRestoreFrom] === undefined) return undefined;
  const { uid, resourceVersion } = set.metadata;
  return {
    // Fails with a conflict if the set has changed since.
    metadata: { uid, resourceVersion, annotations: { [rametRestoreFrom]: followed } },
    spec: { template: { metadata: { annotations: { ...wanted, [rametRestoreFrom]: null } } } },
  };
}

/** A template has no schema in the API, so it can hold any value. */
function templateAnnotations(template: Record<string, unknown> | undefined): Record<string, unknown> {
  const metadata = template?.["metadata"] as { annotations?: Record<string, unknown> | null } | null | undefined;
  return metadata?.annotations ?? {};
}
