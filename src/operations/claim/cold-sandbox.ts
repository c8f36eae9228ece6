import { createHash } from "node:crypto";
import type { SandboxSet } from "../../api/kinds/sandbox-set.ts";
import type { SandboxTemplate } from "../../api/kinds/sandbox-template.ts";
import type { SandboxManifest } from "../../api/kinds/sandbox.ts";
import { annotations } from "../../api/names/labels.ts";
import { type SetRevision, setRevision, setSandbox } from "../../api/set/set-revision.ts";
import { type KnownOrigins, resolveOrigin } from "../../api/snapshot/snapshot-reference.ts";
import { type ClaimRequest, claimMetadata, timersOf } from "./request.ts";

export type NamedManifest = SandboxManifest & { metadata: { name: string; namespace: string } };

/**
 * A sandbox like those of a set, created as claimed and never part of the stock. Its name is that of the request, or derived from the
 * request's lock, so that a repeated request creates it only once.
 * @param model an unclaimed sandbox of the set
 */
export function coldSandbox(
  { metadata, spec, ...rest }: NamedManifest,
  request: ClaimRequest,
  now: Date,
): NamedManifest {
  const { ownerReferences: _, ...model } = metadata;
  const claimed = claimMetadata(request, now);
  return {
    ...rest,
    metadata: {
      ...model,
      name: request.name ?? derivedName(request),
      labels: { ...model.labels, ...claimed.labels },
      // A client waits for it, unlike for the set's own.
      annotations: { ...model.annotations, ...claimed.annotations, [annotations.sandboxPriority]: "100" },
    },
    spec: {
      ...spec,
      ...(spec.template && { template: withLabels(spec.template, request.labels) }),
      ...timersOf(request),
    },
  };
}

function derivedName({ set, lock }: ClaimRequest): string {
  return `${stem(set)}-${createHash("sha256").update(lock).digest("hex").slice(0, digits)}`;
}

const digits = 10;

/** A sandbox's name is a DNS label; a set's name may be longer and contain dots. */
function stem(set: string): string {
  return set
    .slice(0, 63 - 1 - digits)
    .replaceAll(".", "-")
    .replace(/-+$/, "");
}

/** The Pod gets the claim's labels too, as in OpenKruise Agents. */
function withLabels(template: Record<string, unknown>, added: Record<string, string> | undefined): typeof template {
  if (added === undefined) return template;
  const metadata = template["metadata"] as { labels?: Record<string, string> } | undefined;
  return { ...template, metadata: { ...metadata, labels: { ...metadata?.labels, ...added } } };
}

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
