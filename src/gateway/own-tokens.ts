import { hash, timingSafeEqual } from "node:crypto";
import type { KeyValue } from "../api/keys/api-key-rules.ts";
import { codeInterpreterPort, guestClientPort } from "../api/wire/cell-api.ts";
import type { Clock } from "../base/clock.ts";
import { type ClientTokenUse, valueIdIn } from "../cell/client/cell-token.ts";
import { tokenHint } from "./token-verifier.ts";
import type { ClientRequest } from "./exchange.ts";
import { type Found, isUid } from "./routed-sandbox.ts";
import { guestTokenHeader, trafficTokenHeader } from "./forwarded-headers.ts";
import { Refusal } from "./refusal.ts";
import { equalSecrets } from "../base/authenticated-encryption.ts";
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

/** How a request with a valid token of the sandbox itself is proxied. */
export interface Pass {
  /** The value of an API key with which the request ends. @default it depends on none */
  value?: KeyValue;
  /** The token of the guest, in place of the client's. */
  guestToken?: string;
  /** The path with its query, signed with the token of the guest. @default the client's */
  url?: string;
}

/**
 * Authorizes a client that has the tokens of the sandbox itself, as E2B's SDKs have, instead of a token for gateways.
 * @returns `open` for what needs no token; undefined if the client sends none of these tokens, or a wrong one for a port at which
 *   a token for gateways would do
 * @throws Refusal `Unauthorized` for the ports through which clients enter the sandbox; `Unavailable` while the API keys are unknown
 */
export async function authorizeByOwnTokens(
  options: OwnTokensOptions,
  question: Question,
): Promise<Pass | "open" | undefined> {
  const { sandboxId, found, port, request } = question;
  const isEntrance = isEntered(port);
  const pass = (isEntrance ? await entryPass(options, question) : undefined) ?? (await trafficPass(options, question));
  if (pass !== undefined && found.sandbox !== undefined) return pass;
  if (!isEntrance) return undefined;
  // By name, it would tell strangers which sandboxes exist.
  if (request.method === "GET" && request.url === "/health" && isUid(sandboxId)) return "open";
  throw unauthorized(
    `The access token of the sandbox is missing or wrong: send it in the header X-Access-Token. ${tokenHint}`,
  );
}

/** The pass of a client with a token for the guest, or a link to a file, at a port through which clients enter the sandbox. */
export async function entryPass(options: OwnTokensOptions, question: Question): Promise<Pass | undefined> {
  const { port, request } = question;
  if (!isEntered(port)) return undefined;
  // The guest does the same with an empty header.
  if (request.headers[guestTokenHeader]) return guestPass(options, question);
  return port === guestClientPort ? linkPass(options, question) : undefined;
}

/** The pass of a client with a token for the guest, which allows more than reading what the sandbox reports. */
export async function guestPass(
  { tokens }: Pick<OwnTokensOptions, "tokens">,
  { found, request }: Pick<Question, "found" | "request">,
): Promise<Pass | undefined> {
  const given = request.headers[guestTokenHeader];
  if (typeof given !== "string") return undefined;
  const uid = uidOf(found);
  if (equalSecrets(given, await tokens.serverTokenOf(uid))) return { guestToken: await tokens.guestTokenOf(uid) };
  const valueId = await valueIdFor(tokens, uid, ["enter", given]);
  const value = valueId === undefined ? undefined : await tokens.keys.find(namespaceOf(found), valueId);
  return value && { value, guestToken: await tokens.guestTokenOf(uid) };
}

async function trafficPass(
  { tokens }: OwnTokensOptions,
  { found, port, request }: Question,
): Promise<Pass | undefined> {
  const given = request.headers[trafficTokenHeader];
  // The SDKs of the code interpreter send the guest's token with code, and this one with everything.
  if (typeof given !== "string" || port === guestClientPort) return undefined;
  const uid = uidOf(found);
  if (equalSecrets(given, await tokens.trafficTokenOf(uid))) return {};
  const valueId = await valueIdFor(tokens, uid, ["traffic", given]);
  if (valueId === undefined) return undefined;
  // It can be with others, who keep it without the key, but do not run code.
  if (port !== codeInterpreterPort) return {};
  const value = await tokens.keys.find(namespaceOf(found), valueId);
  return value && { value };
}

/** The identifier in a client's token for a sandbox; undefined if the token is forged, or for another sandbox or use. */
async function valueIdFor(
  tokens: SandboxTokens,
  uid: string,
  [use, given]: [ClientTokenUse, string],
): Promise<string | undefined> {
  const valueId = valueIdIn(given);
  if (valueId === undefined) return undefined;
  const tokenOf = await tokens.clientTokensOf(uid);
  return equalSecrets(given, tokenOf(use, valueId)) ? valueId : undefined;
}

async function linkPass({ tokens, clock }: OwnTokensOptions, { found, request }: Question): Promise<Pass | undefined> {
  const link = fileLinkIn(request);
  if (link === undefined || !isShort(link)) return undefined;
  const uid = uidOf(found);
  const tokenOf = await tokens.clientTokensOf(uid);
  const { value } =
    tokens.keys.signers(namespaceOf(found)).find(({ id }) => isSignedWith(link, tokenOf("enter", id))) ?? {};
  if (value === undefined || !tokens.keys.isValid(value)) return undefined;
  if (isPast(link.expiry, clock.now().getTime())) throw unauthorized("signature is already expired");
  return { value, url: signedAgain(link, await tokens.guestTokenOf(uid)) };
}

/** Whether clients enter the sandbox through the port with a token of the guest. */
function isEntered(port: number): boolean {
  return port === guestClientPort || port === codeInterpreterPort;
}

/** A missing sandbox costs as much time as another one. */
function uidOf({ sandbox }: Found): string {
  return sandbox?.metadata.uid ?? "";
}

function namespaceOf({ places: [place] }: Found): string {
  return place?.namespace ?? "";
}

/** In the form of envd, whose clients compare the whole body. */
function unauthorized(message: string): Refusal {
  return new Refusal("Unauthorized", message, { isShort: true });
}

/** A link to a file in a sandbox. */
export interface FileLink {
  operation: string;
  query: URLSearchParams;
  signature: Buffer;
  /** In seconds since 1970; empty: never. */
  expiry: string;
}

/** @param url the path with its query @returns undefined if the request is not one for a file with a signature */
export function fileLinkIn({ method, url }: Pick<ClientRequest, "method" | "url">): FileLink | undefined {
  const operation = operations[method];
  const [path = "", text = ""] = url.split(/\?(.*)/s, 2);
  if (path !== "/files" || operation === undefined) return undefined;
  const query = new URLSearchParams(text);
  const signature = query.get("signature");
  const expiry = query.get("signature_expiration") ?? "";
  return signature === null ? undefined : { operation, query, signature: Buffer.from(signature), expiry };
}

/** Whether a link can be valid. Each check of a signature reads all of it, and strangers can send links. */
function isShort({ query, signature, expiry }: FileLink): boolean {
  const isTextShort = (name: string, most: number) => (query.get(name) ?? "").length <= most;
  return (
    signature.length === signatureLength &&
    expiry.length <= 64 &&
    isTextShort("path", 4_096) &&
    isTextShort("username", 256)
  );
}

const signatureLength = "v1_".length + 43;

/**
 * Checks the signature of a link: `v1_` and the unpadded base64 of the SHA-256 of path, operation, user and the token, joined by
 * colons, with the expiry if the link has one. (Source: envd in e2b-dev/infra, packages/envd/internal/api/auth.go.)
 */
export function isSignedWith(link: FileLink, token: string): boolean {
  // Half the time of `equalSecrets`, for a link that is checked with many tokens. The length of a signature is no secret.
  const expected = Buffer.from(signatureOf(link, token));
  return expected.length === link.signature.length && timingSafeEqual(expected, link.signature);
}

function signatureOf({ operation, query, expiry }: FileLink, token: string): string {
  const [path, user] = ["path", "username"].map((name) => query.get(name) ?? "");
  const signed = [path, operation, user, token, ...(expiry === "" ? [] : [expiry])];
  return `v1_${hash("sha256", signed.join(":"), "base64").replace(/=+$/, "")}`;
}

/** The guest gets the values that were checked, in whatever way they were encoded. */
function signedAgain(link: FileLink, guestToken: string): string {
  const query = new URLSearchParams(link.query);
  query.set("signature", signatureOf(link, guestToken));
  return `/files?${query.toString()}`;
}

/** @param expiry see `FileLink` @param now milliseconds since 1970 */
export function isPast(expiry: string, now: number): boolean {
  if (expiry === "") return false;
  return !/^\d{1,15}$/.test(expiry) || Number(expiry) < Math.floor(now / 1000);
}

const operations: Readonly<Record<string, string>> = { GET: "read", HEAD: "read", POST: "write" };
