import { createHash } from "node:crypto";
import { canonicalJson } from "../../base/canonical-json.ts";
import type { PodTemplateSpec } from "../schema/pod-template.ts";
import { restoreSpec } from "./restore-spec.ts";

/** SHA-256 of a value's canonical JSON: `sha256:` and 64 hex digits, equal on every machine. */
export function digestOf(value: unknown): string {
  return `sha256:${createHash("sha256").update(canonicalJson(value)).digest("hex")}`;
}

/**
 * Digest of what two templates must have equal for one to be restored from a checkpoint of the other
 * ({@link restoreSpec}); `template-difference.ts` names what differs.
 * @throws RametError `InvalidArgument` for a template that no sandbox can be made from
 */
export function templateDigest(template: PodTemplateSpec): string {
  return digestOf(restoreSpec(template));
}

/**
 * The revision of a template, for `status.updateRevision` and the Pod label `pod-template-hash`: nine characters over
 * all of it. It changes with every change; it is not the value that another controller would compute.
 */
export function templateRevision(template: unknown): string {
  // Kubernetes' "safe" alphabet: no vowels, so that no revision reads as a word.
  const alphabet = "bcdfghjklmnpqrstvwxz2456789";
  const bytes = createHash("sha256").update(canonicalJson(template)).digest();
  return [...bytes.subarray(0, 9)].map((byte) => alphabet[byte % alphabet.length]).join("");
}
