import * as z from "zod";
import { defined } from "../base/defined.ts";
import { readBody } from "../base/http.ts";
import { RametError } from "../base/errors.ts";
import type { PullCredentials } from "./pull-credentials.ts";
import type { RegistryAnswer, RegistryTransport } from "./registry-transport.ts";

export interface Challenge {
  scheme: "basic" | "bearer";
  parameters: Record<string, string>;
}

/** Parses `WWW-Authenticate` (RFC 9110, 11.6.1). Undefined for a scheme that registries do not use. */
export function parseChallenge(header: string | undefined): Challenge | undefined {
  if (header === undefined || header.length > mostHeader) return undefined;
  const [, scheme = "", rest = ""] = /^\s*(\w+)\s*(.*)$/s.exec(header) ?? [];
  const lower = scheme.toLowerCase();
  if (lower !== "basic" && lower !== "bearer") return undefined;
  const pairs = [...rest.matchAll(/(\w+)="([^"]*)"/g)].map(([, name = "", value = ""]) => [name.toLowerCase(), value]);
  return { scheme: lower, parameters: Object.fromEntries(pairs) as Record<string, string> };
}

const mostHeader = 8 * 1024;

export interface TokenRequest {
  challenge: Challenge;
  /** The repository whose content is read. */
  path: string;
  credentials: PullCredentials | undefined;
  signal: AbortSignal;
}

/**
 * Returns the `Authorization` header for a challenge of a registry (the distribution project's token authentication). Without
 * credentials, it asks for an anonymous token. Undefined if the registry asks for credentials and there are none.
 */
export async function authorizationFor(
  transport: RegistryTransport,
  { challenge, path, credentials, signal }: TokenRequest,
): Promise<string | undefined> {
  if (challenge.scheme === "basic") return credentials && basic(credentials);
  const { realm = "", service } = challenge.parameters;
  const url = URL.parse(realm);
  if (url === null) throw new RametError("InvalidArgument", "the registry names no valid token server");
  const fields = { ...defined({ service }), scope: `repository:${path}:pull` };
  const answer = await askForToken(transport, url, { fields, credentials, signal });
  if (answer.statusCode === 401 || answer.statusCode === 403) {
    await answer.body.dump();
    return undefined;
  }
  if (answer.statusCode !== 200) {
    await answer.body.dump();
    const retryable = answer.statusCode >= 500 || answer.statusCode === 429;
    const why = `its token server ${url.host} responded with status ${answer.statusCode}`;
    throw new RametError("Unavailable", why, { retryable });
  }
  const text = (await readBody(answer.body, mostTokenBytes, "its token")).toString("utf8");
  return `Bearer ${tokenOf(text)}`;
}

function askForToken(
  transport: RegistryTransport,
  url: URL,
  { fields, credentials, signal }: Pick<TokenRequest, "credentials" | "signal"> & { fields: Record<string, string> },
): Promise<RegistryAnswer> {
  if (credentials?.identityToken === undefined) {
    const headers = credentials && { authorization: basic(credentials) };
    return transport.send(withQuery(url, fields), defined({ signal, headers }));
  }
  return transport.send(url, {
    method: "POST",
    signal,
    headers: { "content-type": "application/x-www-form-urlencoded" },
    body: refresh(credentials.identityToken, fields),
  });
}

const mostTokenBytes = 64 * 1024;

const Token = z.object({ token: z.string().optional(), access_token: z.string().optional() });

function tokenOf(text: string): string {
  try {
    const { token, access_token } = Token.parse(JSON.parse(text));
    const found = token ?? access_token ?? "";
    // It becomes a header.
    if (/^[\x21-\x7e]+$/.test(found)) return found;
  } catch {
    // Not JSON: reported below, without the text, which can hold a token.
  }
  throw new RametError("InvalidArgument", "its token server returned no token");
}

function basic({ username, password }: PullCredentials): string {
  return `Basic ${Buffer.from(`${username}:${password}`).toString("base64")}`;
}

function withQuery(url: URL, fields: Record<string, string>): URL {
  const asked = new URL(url);
  for (const [name, value] of Object.entries(fields)) asked.searchParams.set(name, value);
  return asked;
}

function refresh(token: string, fields: Record<string, string>): string {
  const form = { grant_type: "refresh_token", client_id: "ramet", refresh_token: token, ...fields };
  return new URLSearchParams(form).toString();
}
