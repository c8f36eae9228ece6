import type { IncomingMessage } from "node:http";

/** The header that carries the token for the gateway. `Authorization` is what the program in the sandbox may want. */
export const tokenHeader = "ramet-access-token";

/** What concerns one connection and not the next: RFC 9110, 7.6.1. */
const ofOneConnection = new Set([
  "connection",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);

/** What a request goes on with: names and values by turns, as they came. The gateway's token stays here. */
export function forwardedRequestHeaders(request: IncomingMessage): string[] {
  const from = request.socket.remoteAddress ?? "unknown";
  const { "x-forwarded-for": before, "x-forwarded-proto": scheme = "http" } = request.headers;
  const [given, own] = [[before].flat().filter((value) => value !== undefined), new Set(ownHeaders)];
  return [
    ...passedOn(request.rawHeaders, (name) => own.has(name)),
    "X-Forwarded-For",
    [...given, from].join(", "),
    "X-Forwarded-Proto",
    [scheme].flat()[0] ?? "http",
  ];
}

/** The gateway has answered an `Expect` itself. */
const ownHeaders = [tokenHeader, "x-forwarded-for", "x-forwarded-proto", "expect"];

/** What an answer comes back with. */
export function forwardedResponseHeaders(rawHeaders: readonly string[]): string[] {
  return passedOn(rawHeaders, () => false);
}

function passedOn(rawHeaders: readonly string[], isDropped: (name: string) => boolean): string[] {
  const pairs = pairsOf(rawHeaders);
  const named = new Set(
    pairs.flatMap(([name, value]) =>
      name.toLowerCase() === "connection" ? value.split(",").map((part) => part.trim().toLowerCase()) : [],
    ),
  );
  return pairs
    .filter(([given]) => {
      const name = given.toLowerCase();
      return !ofOneConnection.has(name) && !named.has(name) && !isDropped(name);
    })
    .flat();
}

function pairsOf(rawHeaders: readonly string[]): [name: string, value: string][] {
  return rawHeaders.flatMap((name, at) =>
    at % 2 === 0 ? [[name, rawHeaders[at + 1] ?? ""] satisfies [string, string]] : [],
  );
}
