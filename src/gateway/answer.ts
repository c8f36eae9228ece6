import { errors } from "undici";
import { codeInterpreterPort, guestClientPort, reportsPort } from "../api/wire/cell-api.ts";
import type { Clock } from "../base/clock.ts";
import { RametError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import type { ClientApi } from "./client-api.ts";
import { type Destination, type NamedDestination, destinationOf, idHeader, namingHint } from "./destination.ts";
import type { ClientRequest, ClientResponse, Exchange } from "./exchange.ts";
import type { ExchangeSlots } from "./limits.ts";
import type { GatewayMetrics } from "./metrics.ts";
import { isGrpc, refuse } from "./refusal.ts";
import { isRepeatable } from "./forward.ts";
import { type RouterOptions, routeOf } from "./router.ts";
import type { Route } from "./upstreams.ts";

export interface AnswerOptions extends RouterOptions {
  /** Gets the requests that name no sandbox. @default the gateway refuses them */
  clientApi?: Pick<ClientApi, "proxy" | "upgrade"> | undefined;
  slots: ExchangeSlots;
  invalidResponses: InvalidResponses;
  metrics: GatewayMetrics;
  log: Log;
}

/** Proxies a request to a sandbox and returns the status. */
type SendToSandbox = (route: Route, exchange: Exchange) => Promise<number>;

/** Proxies a request to the client API and returns the status. */
type SendToClientApi = (clientApi: Pick<ClientApi, "proxy" | "upgrade">) => Promise<number>;

/** Routes and proxies a request, then records its outcome. Never logs its content. */
export async function answer(
  gateway: AnswerOptions,
  given: Exchange,
  send: SendToSandbox,
  sendToClientApi: SendToClientApi = (clientApi) => clientApi.proxy(given),
): Promise<void> {
  const { metrics, clock, clientApi } = gateway;
  const releases: (() => void)[] = [];
  const since = clock.monotonicMilliseconds();
  let [exchange, named]: [Exchange, NamedDestination | undefined] = [given, undefined];
  let status: number | undefined;
  metrics.underWay(1);
  try {
    requireOneHost(given.request);
    named = destinationOf(given.request);
    if (answersItself(gateway, given, named?.destination)) return;
    releases.push(takeForClient(gateway, given));
    releases.push(gateway.slots.holdBody(given));
    if (named === undefined) {
      status = clientApi && (await sendToClientApi(clientApi));
    } else {
      exchange = withForeignOrigins(withUrl(given, named.url), named.destination);
      status = await answerFromSandbox(gateway, { ...named, exchange, send, releases });
    }
  } catch (error) {
    status = failed(gateway, exchange, error, named?.destination);
  } finally {
    metrics.underWay(-1);
    for (const release of releases) release();
  }
  if (status === undefined) return;
  if (named === undefined) metrics.clientApiAnswered(status);
  else metrics.answered(status, (clock.monotonicMilliseconds() - since) / 1000);
}

interface SandboxRequest extends NamedDestination {
  exchange: Exchange;
  send: SendToSandbox;
  /** Gets what to release in the end. */
  releases: (() => void)[];
}

/** Proxies a request, and if it may be repeated, once more when the sandbox has moved meanwhile. @throws RametError */
async function answerFromSandbox(gateway: AnswerOptions, asked: SandboxRequest, isLast = false): Promise<number> {
  const { destination, exchange, send, releases } = asked;
  const route = await routeOf(gateway, destination, exchange, (value) => {
    const over = gateway.sandboxTokens?.keys.endWhenRevoked(value, () => {
      cutOff(exchange);
    });
    if (over !== undefined) releases.push(over);
  });
  const release = gateway.slots.takeForSandbox(route.sandbox.metadata, route.title);
  try {
    return await gateway.invalidResponses.watch(route, () => send(route, withUrl(exchange, route.url)));
  } catch (error) {
    const { metadata, isMoving, cellKey } = route.sandbox;
    const now = gateway.sandboxes.byUid(metadata.uid);
    const hasMoved = now?.cellKey !== cellKey || (now?.isMoving === true && !isMoving);
    if (isLast || !hasMoved || !isRepeatable(exchange.request) || exchange.response.headersSent) throw error;
  } finally {
    release();
  }
  return answerFromSandbox(gateway, asked, true);
}

function withUrl(exchange: Exchange, url = exchange.request.url): Exchange {
  return { ...exchange, request: { ...exchange.request, url } };
}

/** Ends a request in a way that its client cannot take for the end of the response. */
function cutOff({ request: { stream }, response }: Exchange): void {
  // Without an error, and with `close`, Node ends the response of a stream.
  response.body.destroy(stream && new RametError("Unauthorized", "The API key of the access token was revoked"));
}

/** Servers disagree about which of two hosts counts. @throws RametError `InvalidArgument` */
function requireOneHost({ rawHeaders }: Exchange["request"]): void {
  const hosts = rawHeaders.filter((name, at) => at % 2 === 0 && name.toLowerCase() === "host");
  if (hosts.length > 1) throw new RametError("InvalidArgument", "The request has more than one Host header");
}

/** Responds to a preflight, a health check, and a request that names no sandbox and cannot be for the client API. */
function answersItself(
  { clientApi }: AnswerOptions,
  exchange: Exchange,
  destination: Destination | undefined,
): boolean {
  const { request, response } = exchange;
  if (isOwnPreflight(request, destination)) {
    answerPreflight(exchange);
  } else if (destination !== undefined) {
    return false;
  } else if (request.url === "/healthz") {
    response.writeHead(200, []);
    response.body.end("ok\n");
  } else if (clientApi === undefined) {
    const error = new RametError("InvalidArgument", "The request names no sandbox", { hint: namingHint });
    refuse(exchange, error, undefined);
  } else {
    return false;
  }
  return true;
}

/** A connection of HTTP/1.1 has one request, and was counted when it was accepted, unless clients share it. */
function takeForClient({ slots }: AnswerOptions, { request, origin }: Exchange): () => void {
  const isStream = request.stream !== undefined;
  return isStream || origin.isProxied ? slots.takeForClient(origin.address, { isStream }) : () => undefined;
}

/** @returns the status; undefined if the response has begun, or the client has left */
function failed(
  { log }: AnswerOptions,
  exchange: Exchange,
  thrown: unknown,
  destination: Destination | undefined,
): number | undefined {
  const { response } = exchange;
  const error = RametError.from(thrown);
  if (response.headersSent || response.body.destroyed) return undefined;
  const status = refuse(exchange, error, destination);
  const level = status === 500 ? "error" : "debug";
  log[level]({ ...destination, status, code: error.code, error: error.message }, "refused a request");
  return status;
}

/** Whether the program at a port speaks HTTP/2: gRPC needs it, and other programs are declared. */
export function programSpeaksHttp2({ request }: Pick<Exchange, "request">, { sandbox, port }: Route): boolean {
  if (request.stream === undefined || port === guestClientPort || port === reportsPort) return false;
  return isGrpc(request) || sandbox.http2Ports.includes(port);
}

/**
 * Whether a request is a preflight that the gateway answers itself: E2B's SDK in a browser sends its headers to the ports
 * through which clients enter, and a preflight can have no token. It has no headers of the SDK either, and lists them instead.
 * Preflights for other ports are for the program there.
 */
function isOwnPreflight({ method, headers }: ClientRequest, destination: Destination | undefined): boolean {
  const { origin, "access-control-request-method": asked, "access-control-request-headers": listed } = headers;
  if (method !== "OPTIONS" || origin === undefined || asked === undefined) return false;
  if (destination !== undefined) return answersForeignOrigins(destination);
  return namesOf(listed).includes(idHeader);
}

/** Allows every requested method and header, from everywhere. The token protects sandboxes: a browser never adds it unasked. */
function answerPreflight({ request, response }: Exchange): void {
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
function withForeignOrigins(exchange: Exchange, destination: Destination): Exchange {
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

/**
 * The ports of sandboxes whose program sends no valid HTTP. After some invalid responses in a row, the gateway sends no request to
 * that port for a moment: each invalid response costs it a connection.
 */
export class InvalidResponses {
  readonly #clock: Clock;
  readonly #ports = new Map<string, { inARow: number; pausedUntil: number }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Sends a request to a port. @throws RametError `SandboxUnreachable` while the port is paused, and what `send` throws */
  async watch(route: Route, send: () => Promise<number>): Promise<number> {
    const { sandbox, title, port } = route;
    const key = `${sandbox.metadata.uid}:${port}`;
    if (this.#clock.monotonicMilliseconds() < (this.#ports.get(key)?.pausedUntil ?? 0)) {
      throw new RametError("SandboxUnreachable", `Port ${port} of the ${title} sends invalid HTTP`, {
        hint: `Check what the program on this port responds. The gateway tries again after ${pauseMilliseconds / 1000} s`,
        retryable: true,
      });
    }
    try {
      const status = await send();
      this.#ports.delete(key);
      return status;
    } catch (error) {
      if (isInvalidResponse(error)) this.#count(key);
      throw error;
    }
  }

  #count(key: string): void {
    const inARow = (this.#ports.get(key)?.inARow ?? 0) + 1;
    const pausedUntil = inARow < mostInARow ? 0 : this.#clock.monotonicMilliseconds() + pauseMilliseconds;
    // The newest is the last, so that the oldest can be forgotten.
    this.#ports.delete(key);
    this.#ports.set(key, { inARow, pausedUntil });
    const [oldest = key] = this.#ports.keys();
    if (this.#ports.size > mostPorts) this.#ports.delete(oldest);
  }
}

/** A program under development sends a few. */
const mostInARow = 5;
const pauseMilliseconds = 1_000;
/** A sandbox has many ports, and each can send invalid responses. */
const mostPorts = 1_000;

/** Not a connection that cannot be opened or that breaks: a checkpoint breaks many at a time, and clients leave. */
function isInvalidResponse(error: unknown): boolean {
  const { cause } = RametError.from(error);
  if (cause instanceof errors.HTTPParserError) return true;
  return cause instanceof Error && invalidCodes.test((cause as NodeJS.ErrnoException).code ?? "");
}

/**
 * The codes of Node's parser, and of Node and undici for a status or a header that cannot be sent, for a status below 100
 * (an assertion), and for headers without an end.
 */
const invalidCodes = /^(HPE_|ERR_ASSERTION$|ERR_(HTTP_)?INVALID_|UND_ERR_HEADERS_OVERFLOW$)/;
