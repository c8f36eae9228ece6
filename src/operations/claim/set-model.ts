import type { SandboxSet } from "../../api/kinds/sandbox-set.ts";
import type { SandboxTemplate } from "../../api/kinds/sandbox-template.ts";
import { setRevision, type SetRevision } from "../../api/set/set-revision.ts";
import { setSandbox } from "../../api/set/set-sandbox.ts";
import { type KnownOrigins, resolveOrigin } from "../../api/snapshot/resolve-origin.ts";
import type { NamedManifest } from "./cold-sandbox.ts";

/** The objects that sets refer to, as far as a process knows them. */
export interface KnownReferences extends KnownOrigins {
  /** @param key `namespace/name` */
  template(key: string): SandboxTemplate | undefined;
}

/**
 * An unclaimed sandbox, as the set would create it now.
 * @throws RametError for a set whose template is invalid or refers to what does not exist
 */
export function setModel(set: SandboxSet, known: KnownReferences, random: () => number): NamedManifest {
  return setSandbox(set, currentRevision(set, known), random);
}

/** The revision of a set with the references that the process knows. @throws RametError like {@link setModel} */
export function currentRevision(set: SandboxSet, known: KnownReferences): SetRevision {
  const { namespace } = set.metadata;
  const { templateRef } = set.spec;
  const named = templateRef && known.template(`${namespace}/${templateRef.name}`);
  return setRevision(set, named, (origin) => resolveOrigin(namespace, origin, known));
}
