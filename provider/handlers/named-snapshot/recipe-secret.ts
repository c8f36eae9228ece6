import { createHmac, randomBytes } from "node:crypto";
import { canonicalJson } from "../../../src/base/canonical-json.ts";
import { contentDigestAnnotation } from "../../../src/api/snapshot/snapshot-inputs.ts";
import type { KubeManifest } from "../../../src/kube/object.ts";
import { ownerAnnotation } from "../owner.ts";
import type { NamedSnapshotInputs } from "./inputs.ts";

/** The Secret that holds what the recipe of a named snapshot copies and nobody may read in it. */
export function recipeSecretName(snapshot: string): string {
  return `${snapshot}-recipe`;
}

/**
 * What stands for the secrets in the digest: a hash with a key that is in the stack's encrypted state, so that a preview
 * knows it and nobody can find a short secret by trying (docs/decisions/0006).
 */
export function contentDigest(secrets: Readonly<Record<string, string>>, key: string): string {
  return `hmac-sha256:${createHmac("sha256", Buffer.from(key, "hex")).update(canonicalJson(secrets)).digest("hex")}`;
}

/** Where the key stands in the Secret, for a run that follows one that was killed; a file of that name takes its place. */
export const digestKeyEntry = ".digest-key";

export function newDigestKey(): string {
  return randomBytes(32).toString("hex");
}

export function recipeSecret({
  name,
  namespace,
  owner,
  secrets = {},
  digestKey = "",
}: NamedSnapshotInputs): KubeManifest {
  return {
    apiVersion: "v1",
    kind: "Secret",
    metadata: {
      name: recipeSecretName(name),
      namespace,
      annotations: { [ownerAnnotation]: owner, [contentDigestAnnotation]: contentDigest(secrets, digestKey) },
    },
    data: Object.fromEntries(
      Object.entries({ [digestKeyEntry]: digestKey, ...secrets }).map(([key, text]) => [
        key,
        Buffer.from(text).toString("base64"),
      ]),
    ),
  };
}
