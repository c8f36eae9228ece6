import { apiVersion } from "../schema/kind.ts";
import { annotations, labels, restoreFromAnnotations } from "../names/labels.ts";
import type { SandboxManifest } from "../kinds/sandbox.ts";
import type { SandboxSet } from "../kinds/sandbox-set.ts";
import type { SetRevision } from "./set-revision.ts";

/**
 * An unclaimed sandbox of a set, owned by it.
 *
 * Labels and annotations of the Pod template stand on the Sandbox too, without those that are Ramet's own business. It
 * carries its template in itself: a claimed one lives on when the set, and with it the revision, is gone.
 *
 * @param random from 0 to below 1; names are not looked up, so a taken one is refused by the API server
 */
export function setSandbox(
  { metadata, spec }: Pick<SandboxSet, "metadata" | "spec">,
  revision: SetRevision,
  random: () => number,
): SandboxManifest & { metadata: { name: string; namespace: string } } {
  const { name, namespace, uid } = metadata;
  const { template, ...rest } = revision.spec;
  const templateMetadata = template?.["metadata"] as Partial<Record<"labels" | "annotations", Strings>> | undefined;
  const taken = ownKeysDropped(templateMetadata?.annotations);
  return {
    apiVersion,
    kind: "Sandbox",
    metadata: {
      name: `${beginningOf(name)}-${suffix(random)}`,
      namespace,
      labels: {
        ...ownKeysDropped(templateMetadata?.labels),
        [labels.sandboxPool]: name,
        [labels.sandboxTemplate]: spec.templateRef?.name ?? name,
        [labels.sandboxClaimed]: "false",
        [labels.templateHash]: revision.hash,
      },
      ...(Object.keys(taken).length > 0 && { annotations: taken }),
      ownerReferences: [{ apiVersion, kind: "SandboxSet", name, uid, controller: true, blockOwnerDeletion: true }],
    },
    spec: { ...rest, ...(template?.["spec"] !== undefined && { template }) },
  };
}

type Strings = Record<string, string>;

function ownKeysDropped(values: Strings = {}): Strings {
  return Object.fromEntries(Object.entries(values).filter(([key]) => kept.has(key) || !internal.test(key)));
}

const internal = /^(e2b\.)?agents\.kruise\.io\//;
const kept: ReadonlySet<string> = new Set([
  annotations.cleanupEnabled,
  annotations.cleanupRetainOnFailure,
  annotations.reservePausedSandboxDuration,
  ...restoreFromAnnotations,
]);

/** The name of a sandbox is a DNS label, that of a set may be longer and have dots. */
function beginningOf(name: string): string {
  return name
    .slice(0, 63 - 1 - suffixLength)
    .replaceAll(".", "-")
    .replace(/-+$/, "");
}

function suffix(random: () => number): string {
  return Array.from({ length: suffixLength }, () => alphabet[Math.floor(random() * alphabet.length)]).join("");
}

/** 14 million names for each set. */
const suffixLength = 5;
/** Kubernetes' own for generated names: no vowels, so that none reads as a word. */
const alphabet = "bcdfghjklmnpqrstvwxz2456789";
