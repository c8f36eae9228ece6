import { createHash } from "node:crypto";
import { equalSecrets } from "./sandbox-tokens.ts";

/** The outcome of a check. */
export type FileSignature = "valid" | "invalid" | "expired";

/**
 * Checks the signature of a link to a file in a sandbox: `v1_` and the unpadded base64 of the SHA-256 of path, operation, user and
 * the guest's token, joined by colons, with the expiry (seconds since 1970) if the link has one.
 * (Source: envd in e2b-dev/infra, packages/envd/internal/api/auth.go.)
 * @param url the path with its query
 * @param now milliseconds since 1970
 * @returns undefined if the request is not one for a file with a signature
 */
export function checkFileSignature(
  { method, url }: { method: string; url: string },
  guestToken: string,
  now: number,
): FileSignature | undefined {
  const operation = operations[method];
  const [path = "", query = ""] = url.split(/\?(.*)/s, 2);
  const values = new URLSearchParams(query);
  const signature = values.get("signature");
  if (path !== "/files" || operation === undefined || signature === null) return undefined;
  const [name, user, expiry] = ["path", "username", "signature_expiration"].map((key) => values.get(key) ?? "");
  const signed = [name, operation, user, guestToken, ...(expiry === "" ? [] : [expiry])];
  const digest = createHash("sha256").update(signed.join(":")).digest("base64").replace(/=+$/, "");
  if (!equalSecrets(signature, `v1_${digest}`)) return "invalid";
  return isPast(expiry ?? "", now) ? "expired" : "valid";
}

/** @param expiry seconds since 1970; empty: never */
function isPast(expiry: string, now: number): boolean {
  if (expiry === "") return false;
  return !/^\d{1,15}$/.test(expiry) || Number(expiry) < Math.floor(now / 1000);
}

const operations: Readonly<Record<string, string>> = { GET: "read", HEAD: "read", POST: "write" };
