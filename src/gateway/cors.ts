import { codeInterpreterPort, guestClientPort } from "../api/wire/cell-api.ts";
import { type Destination, idHeader } from "./destination.ts";
import type { ClientRequest, ClientResponse, Exchange } from "./exchange.ts";

/**
 * Whether a request is a preflight that the gateway answers itself: E2B's SDK in a browser sends its headers to the ports
 * through which clients enter, and a preflight can have no token. It has no headers of the SDK either, and lists them instead.
 * Preflights for other ports are for the program there.
 */
export function isOwnPreflight({ method, headers }: ClientRequest, destination: Destination | undefined): boolean {
  const { origin, "access-control-request-method": asked, "access-control-request-headers": listed } = headers;
  if (method !== "OPTIONS" || origin === undefined || asked === undefined) return false;
  if (destination !== undefined) return answersForeignOrigins(destination);
  return namesOf(listed).includes(idHeader);
}

/** Allows every requested method and header, from everywhere. The token protects sandboxes: a browser never adds it unasked. */
export function answerPreflight({ request, response }: Exchange): void {
  const listed = namesOf(request.headers["access-control-request-headers"]);
  const headers = [
    "access-control-allow-origin",
    "*",
    "access-control-allow-methods",
    "GET, HEAD, POST, PUT, PATCH, DELETE",
    "access-control-max-age",
    "7200",
    "vary",
    "Origin, Access-Control-Request-Headers",
  ];
  const isListed = listed.length > 0;
  response.endWithHead(204, isListed ? [...headers, "access-control-allow-headers", listed.join(", ")] : headers);
}

/** Lets scripts of all origins read the responses of these ports, unless the program there decides about that itself. */
export function withForeignOrigins(exchange: Exchange, destination: Destination): Exchange {
  const { request, response } = exchange;
  if (request.headers.origin === undefined || !answersForeignOrigins(destination)) return exchange;
  const readable = (headers: readonly string[]): readonly string[] =>
    headers.some((name, at) => at % 2 === 0 && name.toLowerCase() === "access-control-allow-origin")
      ? headers
      : [...headers, ...allowed];
  const wrapped: ClientResponse = {
    body: response.body,
    get headersSent() {
      return response.headersSent;
    },
    writeHead: (status, headers) => {
      response.writeHead(status, readable(headers));
    },
    endWithHead: (status, headers) => {
      response.endWithHead(status, readable(headers));
    },
  };
  return { ...exchange, response: wrapped };
}

function answersForeignOrigins({ port }: Destination): boolean {
  return port === guestClientPort || port === codeInterpreterPort;
}

/** The headers that Connect's clients read, and those of files. */
const exposed = [
  "Grpc-Status",
  "Grpc-Message",
  "Grpc-Status-Details-Bin",
  "Content-Disposition",
  "Content-Range",
  "Location",
  "Retry-After",
];
const allowed = [
  "access-control-allow-origin",
  "*",
  "access-control-expose-headers",
  exposed.join(", "),
  "vary",
  "Origin",
];

/** The names in a list of headers, in lower case. Without those that are no names. */
function namesOf(listed: string | undefined): string[] {
  const names = (listed ?? "").split(",").map((name) => name.trim().toLowerCase());
  return names.filter((name) => /^[\w!#$%&'*+.^`|~-]+$/.test(name));
}
