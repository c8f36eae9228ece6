import type { VersionContent } from "../kinds/named-snapshot.ts";
import type { SandboxTemplateSpec } from "../kinds/sandbox-template.ts";
import type { RecipeStep } from "../recipe/recipe.ts";

/**
 * The inputs of a version with all references resolved, from which `snapshotDigest` is computed. The controller and a Pulumi
 * preview without a cluster compute the same digest from the same inputs.
 */
export interface SnapshotInputs {
  from: ResolvedSource;
  recipe: readonly RecipeStep[];
  /** The content that steps with `configMapKeyRef` or `secretKeyRef` copy, by step index. */
  copied: ReadonlyMap<number, CopiedContent>;
  contents: readonly VersionContent[];
  /** The names of the volumes to capture. Undefined: all, if `contents` has them. */
  volumes?: readonly string[] | undefined;
}

export type ResolvedSource =
  /** The spec of the SandboxTemplate. */
  | { template: SandboxTemplateSpec }
  /** The digest of the parent version. */
  | { snapshot: { digest: string } }
  | { checkpoint: { id: string } }
  /** A later sandbox with the same name has another UID and is another source. */
  | { sandbox: { name: string; uid: string } };

/** Represents content of another object in a digest. */
export type CopiedContent =
  /** The SHA-256 of the bytes of a ConfigMap's key: 64 hex digits. */
  | { sha256: string }
  /** The identity of a Secret's key, whose value could be guessed from a hash of the bytes: see {@link secretIdentity}. */
  | { identity: string };

/**
 * Represents the content of a Secret in a digest; docs/decisions/0006 has the reasons. The author of the Secret changes the
 * annotation with the content, for example to a keyed hash. Without it, every change of the object counts as a change of content.
 */
export function secretIdentity({
  annotations = {},
  uid,
  resourceVersion,
}: {
  annotations?: Record<string, string> | undefined;
  uid: string;
  resourceVersion: string;
}): string {
  const declared = annotations[contentDigestAnnotation];
  return declared === undefined ? `object:${uid}/${resourceVersion}` : `declared:${declared}`;
}

/** On a Secret: a text that changes if and only if its content changes. */
export const contentDigestAnnotation = "ramet.dev/content-digest";
