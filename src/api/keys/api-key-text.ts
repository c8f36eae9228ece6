import { createHash } from "node:crypto";
import type { KeyValue } from "./api-key-rules.ts";

/** The formats of a key: those that the SDKs of E2B and Sandbox0 accept, and one without a prefix. */
export const apiKeyFormats = ["e2b", "sandbox0", "plain"] as const;
export type ApiKeyFormat = (typeof apiKeyFormats)[number];

/** The namespace and name of an ApiKey. */
export interface ApiKeyAt {
  namespace: string;
  name: string;
}

export interface NewApiKey extends ApiKeyAt {
  format: ApiKeyFormat;
  /** Returns this many bytes from a cryptographic source. */
  random: (bytes: number) => Uint8Array;
}

/**
 * Makes a key: `<prefix><id><secret>`. The id, 16 hex digits, finds the ApiKey; the secret is 32 hex digits.
 * @returns the text for the client, which is not stored, and the digest for the ApiKey
 */
export function newApiKey({ format, random, ...at }: NewApiKey): { text: string; digest: string } {
  const secret = random(secretBytes);
  if (secret.length !== secretBytes) throw new RangeError(`the random source returned ${secret.length} bytes`);
  const digits = apiKeyId(at) + Buffer.from(secret).toString("hex");
  return { text: prefixes[format] + digits, digest: apiKeyDigest(at, digits) };
}

const secretBytes = 16;

/** A key of Sandbox0 names a region. Ramet has none, and accepts every region. */
const prefixes: Readonly<Record<ApiKeyFormat, string>> = { e2b: "e2b_", sandbox0: "s0_ramet_", plain: "" };

/** Reads a key in any format. Undefined: the text is no key. */
export function readApiKey(text: string): { id: string; digits: string } | undefined {
  if (text.length > mostCharacters) return undefined;
  const digits = /^(?:e2b_|s0_[a-z0-9-]+_)?([0-9a-f]{48})$/.exec(text)?.[1];
  return digits === undefined ? undefined : { id: digits.slice(0, idDigits), digits };
}

/** The longest key has a region of Sandbox0, which is a DNS label. */
const mostCharacters = "s0_".length + 63 + "_".length + 48;

const idDigits = 16;

/** The first digits of each key of an ApiKey. They identify it and are not secret. */
export function apiKeyId({ namespace, name }: ApiKeyAt): string {
  return sha256(`${namespace}/${name}`).slice(0, idDigits);
}

/** The digest of a key's 48 digits. It depends on the ApiKey, so that a copy in another one matches no key. */
export function apiKeyDigest({ namespace, name }: ApiKeyAt, digits: string): string {
  return `sha256:${sha256(`${namespace}/${name}:${digits}`)}`;
}

/** Identifies a value of a key in the tokens that clients get with it, and reveals nothing about it. */
export function keyValueId({ key, digest }: KeyValue): string {
  return createHash("sha256").update(`${key}:${digest}`).digest("base64url").slice(0, keyValueIdLength);
}

/** 132 bits. */
export const keyValueIdLength = 22;

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
