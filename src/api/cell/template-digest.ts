import { createHash } from "node:crypto";
import { canonicalJson } from "../../base/canonical-json.ts";
import type { PodTemplateSpec } from "../schema/pod-template.ts";
import { restoreSpec } from "./restore-spec.ts";

/** Returns the SHA-256 of a value's canonical JSON: `sha256:` and 64 hex digits. */
export function digestOf(value: unknown): string {
  return `sha256:${createHash("sha256").update(canonicalJson(value)).digest("hex")}`;
}

/** Identifies a value by the first 16 hex digits of its digest. */
export function shortDigestOf(value: unknown): string {
  return digestOf(value).slice("sha256:".length, "sha256:".length + 16);
}

/** Identifies what an object requests by these texts, by 16 hex digits; undefined if it requests nothing. */
export function requestDigest(texts: readonly (string | undefined)[]): string | undefined {
  return texts.every((text) => text === undefined) ? undefined : shortDigestOf(texts.map((text) => text ?? null));
}

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
