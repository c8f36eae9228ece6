import { createHash } from "node:crypto";
import { canonicalJson } from "../../base/canonical-json.ts";
import { digestOf } from "../schema/digest.ts";
import type { PodTemplateSpec } from "../schema/pod-template.ts";
import { restoreSpec } from "./restore-spec.ts";

/**
 * Returns the digest of the fields that must be equal to restore a checkpoint of one template with another one
 * ({@link restoreSpec}). `template-difference.ts` names the different fields.
 * @throws RametError `InvalidArgument` for a template that is not valid for a sandbox
 */
export function templateDigest(template: PodTemplateSpec): string {
  return digestOf(restoreSpec(template));
}

/**
 * Returns the revision of a template, for `status.updateRevision` and the Pod label `pod-template-hash`: a hash of nine
 * characters over the whole template. Other controllers compute other values.
 */
export function templateRevision(template: unknown): string {
  // Kubernetes' "safe" alphabet without vowels, so that no revision reads as a word.
  const alphabet = "bcdfghjklmnpqrstvwxz2456789";
  const bytes = createHash("sha256").update(canonicalJson(template)).digest();
  return [...bytes.subarray(0, 9)].map((byte) => alphabet[byte % alphabet.length]).join("");
}
