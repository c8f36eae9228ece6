import { createHash } from "node:crypto";
import { codeInterpreterPort, guestClientPort } from "../api/wire/cell-api.ts";
import type { Clock } from "../base/clock.ts";
import { tokenHint } from "./token-verifier.ts";
import type { ClientRequest } from "./exchange.ts";
import { type Found, isUid } from "./find-sandbox.ts";
import { guestTokenHeader, trafficTokenHeader } from "./forwarded-headers.ts";
import { Refusal } from "./refusal.ts";
import { equalSecrets } from "../base/secrets.ts";
import type { SandboxTokens } from "./sandbox-tokens.ts";

export interface OwnTokensOptions {
  tokens: SandboxTokens;
  clock: Clock;
}

interface Question {
  sandboxId: string;
  /** The sandbox can be missing: an invalid token and a missing sandbox then get the same answer. */
  found: Found;
  port: number;
  request: Pick<ClientRequest, "method" | "url" | "headers">;
}

/**
 * Authorizes a client that has the tokens of the sandbox itself, as E2B's SDKs have, instead of a token for gateways.
 * @returns `open` for what needs no token; undefined if the client sends none of these tokens, or a wrong one for a port at which
 *   a token for gateways would do
 * @throws Refusal `Unauthorized` for the ports through which clients enter the sandbox
 */
export async function authorizeByOwnTokens(
  options: OwnTokensOptions,
  question: Question,
): Promise<"authorized" | "open" | undefined> {
  const { sandboxId, found, port, request } = question;
  // A missing sandbox costs as much time as another one.
  const asked = { ...options, request, port, uid: found.sandbox?.metadata.uid ?? "" };
  const isEntrance = port === guestClientPort || port === codeInterpreterPort;
  const hasToken = isEntrance ? await mayEnter(asked) : await hasTrafficToken(asked);
  if (hasToken && found.sandbox !== undefined) return "authorized";
  if (!isEntrance) return undefined;
  // By name, it would tell strangers which sandboxes exist.
  if (request.method === "GET" && request.url === "/health" && isUid(sandboxId)) return "open";
  throw unauthorized(
    `The access token of the sandbox is missing or wrong: send it in the header X-Access-Token. ${tokenHint}`,
  );
}

/** Whether the client has the token of the sandbox's guest, which allows more than reading what the sandbox reports. */
export async function hasGuestToken(
  tokens: SandboxTokens,
  { found: { sandbox }, request }: Pick<Question, "found" | "request">,
): Promise<boolean> {
  const given = request.headers[guestTokenHeader];
  if (sandbox === undefined || typeof given !== "string") return false;
  return equalSecrets(given, await tokens.guestTokenOf(sandbox.metadata.uid));
}

interface Asked extends OwnTokensOptions {
  uid: string;
  port: number;
  request: Question["request"];
}

async function mayEnter(asked: Asked): Promise<boolean> {
  const { tokens, uid, port, request } = asked;
  const given = request.headers[guestTokenHeader];
  if (typeof given === "string") {
    if (equalSecrets(given, await tokens.guestTokenOf(uid))) return true;
  } else if (port === guestClientPort && request.url.startsWith("/files?")) {
    return isSigned(asked);
  }
  // The SDKs of the code interpreter send the guest's token with code, and this one with everything.
  return port === codeInterpreterPort && hasTrafficToken(asked);
}

async function hasTrafficToken({ tokens, uid, request }: Asked): Promise<boolean> {
  const given = request.headers[trafficTokenHeader];
  return typeof given === "string" && equalSecrets(given, await tokens.trafficTokenOf(uid));
}

async function isSigned({ tokens, clock, uid, request }: Asked): Promise<boolean> {
  const outcome = checkFileSignature(request, await tokens.guestTokenOf(uid), clock.now().getTime());
  if (outcome === "expired") throw unauthorized("signature is already expired");
  return outcome === "valid";
}

/** In the form of envd, whose clients compare the whole body. */
function unauthorized(message: string): Refusal {
  return new Refusal("Unauthorized", message, { isShort: true });
}

type FileSignature = "valid" | "invalid" | "expired";

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
