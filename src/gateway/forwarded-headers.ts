import { validateHeaderName, validateHeaderValue } from "node:http";
import { hopByHopHeaders } from "../base/http.ts";
import type { ClientOrigin } from "./client-origin.ts";
import type { ClientRequest } from "./exchange.ts";

/** The header for the gateway's token. `Authorization` stays available for the program in the sandbox. */
export const tokenHeader = "ramet-access-token";

/** The header for the token of the guest, as of envd. */
export const guestTokenHeader = "x-access-token";

/** The header for the token of ports that are not public, as of E2B. */
export const trafficTokenHeader = "e2b-traffic-access-token";

/**
 * Returns the headers for the sandbox as alternating names and values. Removes the tokens for the gateway.
 * @param own `guestToken` replaces the client's own value of the guest's header, and `host` that of `Host`
 */
export function forwardedRequestHeaders(
  request: Pick<ClientRequest, "rawHeaders">,
  { forwardedFor, scheme }: ClientOrigin,
  { guestToken, host }: { guestToken?: string | undefined; host?: string | undefined } = {},
): string[] {
  const isReplaced = (name: string) =>
    (guestToken !== undefined && name === guestTokenHeader) || (host !== undefined && name === "host");
  return [
    ...endToEndHeaders(request.rawHeaders, (name) => ownHeaders.has(name) || isReplaced(name)),
    ...(host === undefined ? [] : ["Host", host]),
    ...(guestToken === undefined ? [] : [guestTokenHeader, guestToken]),
    "X-Forwarded-For",
    forwardedFor,
    "X-Forwarded-Proto",
    scheme,
  ];
}

/** Headers that the gateway consumes or sets. Node has already responded to `Expect`. */
const ownHeaders: ReadonlySet<string> = new Set([
  tokenHeader,
  trafficTokenHeader,
  "x-forwarded-for",
  "x-forwarded-proto",
  "expect",
]);

/**
 * Returns the status and the headers of a sandbox's response for the client. The reason phrase is not passed on: parsers accept
 * any byte in it, and nobody needs it.
 * @throws Error if the status is not that of a final response
 */
export function forwardedResponseHead(statusCode: number, rawHeaders: readonly string[]) {
  if (statusCode < 200 || statusCode > 599) {
    throw Object.assign(new Error(`its status is ${statusCode}`), { code: "ERR_HTTP_INVALID_STATUS_CODE" });
  }
  return { status: statusCode, headers: endToEndHeaders(rawHeaders, () => false) };
}

/** Returns the head of a 101 response. Its connection headers also apply to the client's connection. @throws Error */
export function switchingHead(rawHeaders: readonly string[]): string {
  const lines = pairsOf(rawHeaders).map(([name, value]) => {
    validateHeaderName(name);
    validateHeaderValue(name, value);
    return `${name}: ${value}\r\n`;
  });
  return `HTTP/1.1 101 Switching Protocols\r\n${lines.join("")}\r\n`;
}

function endToEndHeaders(rawHeaders: readonly string[], isDropped: (name: string) => boolean): string[] {
  const named = connectionOptions(rawHeaders);
  const kept: string[] = [];
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const given = rawHeaders[at] ?? "";
    const name = given.toLowerCase();
    if (!hopByHopHeaders.has(name) && !named.has(name) && !isDropped(name)) kept.push(given, rawHeaders[at + 1] ?? "");
  }
  return kept;
}

/** The headers that are only for this connection. */
function connectionOptions(rawHeaders: readonly string[]): Set<string> {
  const named = new Set<string>();
  for (let at = 0; at < rawHeaders.length; at += 2) {
    if (rawHeaders[at]?.toLowerCase() !== "connection") continue;
    for (const part of rawHeaders[at + 1]?.split(",") ?? []) named.add(part.trim().toLowerCase());
  }
  return named;
}

function pairsOf(rawHeaders: readonly string[]): [name: string, value: string][] {
  return rawHeaders.flatMap((name, at) =>
    at % 2 === 0 ? [[name, rawHeaders[at + 1] ?? ""] satisfies [string, string]] : [],
  );
}
