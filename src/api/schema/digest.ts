import { hash } from "node:crypto";
import * as z from "zod";
import { canonicalJson } from "../../base/canonical-json.ts";

/** A SHA-256 digest in statuses and grants: `sha256:` and 64 hex digits. */
export const Digest = z.string().regex(/^sha256:[0-9a-f]{64}$/, "must be sha256: and 64 hex digits");

/** Returns the SHA-256 of a value's canonical JSON: `sha256:` and 64 hex digits. */
export function digestOf(value: unknown): string {
  return `sha256:${hash("sha256", canonicalJson(value))}`;
}

/** Identifies a value by the first 16 hex digits of its digest. */
export function shortDigestOf(value: unknown): string {
  return digestOf(value).slice("sha256:".length, "sha256:".length + 16);
}

/** An id in the form of a UUID (RFC 9562, version 8) that follows from a text. */
export function uuidOf(text: string): string {
  return hash("sha256", text).replace(/^(.{8})(.{4}).(.{3}).(.{3})(.{12}).*$/, "$1-$2-8$3-8$4-$5");
}

/** An id in the form of a UUID that follows from two texts. Ids with the same first text have the same `keyPartOf`. */
export function keyedUuidOf(key: string, text: string): string {
  return keyPartOf(uuidOf(key)) + uuidOf(text).slice(-12);
}

/** The part of an id of `keyedUuidOf` that follows from its first text. */
export function keyPartOf(id: string): string {
  return id.slice(0, -12);
}

/** Identifies what an object requests by these texts, by 16 hex digits; undefined if it requests nothing. */
export function requestDigest(texts: readonly (string | undefined)[]): string | undefined {
  return texts.every((text) => text === undefined) ? undefined : shortDigestOf(texts.map((text) => text ?? null));
}
