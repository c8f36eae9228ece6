import type { Contents } from "../schema/contents.ts";
import type { SandboxTemplateSpec } from "../kinds/sandbox-template.ts";
import type { RecipeStep } from "../recipe/recipe.ts";

/**
 * All that a version is made from, with every reference followed: what `snapshotDigest` is over. Whoever has the same
 * inputs (the controller, a Pulumi preview without a cluster) computes the same digest.
 */
export interface SnapshotInputs {
  from: ResolvedSource;
  recipe: readonly RecipeStep[];
  /** What a step with `configMapKeyRef` or `secretKeyRef` copies, by the step's index. */
  copied: ReadonlyMap<number, CopiedContent>;
  contents: Contents;
}

export type ResolvedSource =
  /** The spec as it stands in the SandboxTemplate. */
  | { template: SandboxTemplateSpec }
  /** The digest of the version of the parent. */
  | { snapshot: { digest: string } }
  | { checkpoint: { id: string } }
  /** Another sandbox of the same name has another UID, and is another source. */
  | { sandbox: { name: string; uid: string } };

/** What stands for content that is kept in another object. */
export type CopiedContent =
  /** Of a ConfigMap's key: SHA-256 of the bytes, 64 hex digits. */
  | { sha256: string }
  /** Of a Secret's key, where a hash of the bytes would let anybody try values until one fits: see {@link secretIdentity}. */
  | { identity: string };

/**
 * What stands for a Secret's content in a digest; docs/decisions/0006 says why. The annotation is whatever the Secret's
 * author changes with the content (a keyed hash, say); without it, every change of the object counts as one of the content.
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

/** On a Secret: a text that changes when, and only when, its content does. */
export const contentDigestAnnotation = "ramet.dev/content-digest";
