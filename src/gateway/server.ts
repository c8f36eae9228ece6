import { once } from "node:events";
import { createServer, IncomingMessage, ServerResponse, STATUS_CODES } from "node:http";
import { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { type Clock, delay } from "../base/clock.ts";
import type { ErrorCode } from "../base/error-codes.ts";
import { RametError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import { openPort } from "../base/http.ts";
import { type ClientOrigin, originReader, type OriginReader } from "./client-origin.ts";
import { ClientConnections, endWith } from "./connections.ts";
import { type Destination, destinationOf, namingHint } from "./destination.ts";
import { forwardUpgrade, upgradeWithBody } from "./forward-upgrade.ts";
import { forward } from "./forward.ts";
import { InvalidResponses } from "./invalid-responses.ts";
import { ExchangeSlots, type GatewayLimits } from "./limits.ts";
import type { GatewayMetrics, Refusal } from "./metrics.ts";
import { routeOf, type RouterOptions } from "./router.ts";
import type { Route, Upstreams } from "./upstreams.ts";

export interface GatewayServerOptions extends RouterOptions {
  upstreams: Upstreams;
  /** 0 selects a free port. */
  port: number;
  address: string;
  metrics: GatewayMetrics;
  limits: GatewayLimits;
  /** The networks of the proxies in front of the gateway, such as `10.0.0.0/8`. */
  trustedProxies: readonly string[];
  clock: Clock;
  log: Log;
}

export interface GatewayServer {
  port: number;
  /** Stops accepting connections, waits for requests in progress, and closes the remaining connections after that time. */
  close(drainMilliseconds: number): Promise<void>;
}

/**
 * Serves the ports of sandboxes.
 * @throws RametError `Unavailable` when the port cannot be opened
 */
export async function serveGateway(options: GatewayServerOptions): Promise<GatewayServer> {
  const { port, address, limits, metrics, clock } = options;
  const server = createServer({ ...timeouts, IncomingMessage: ClientRequest });
  server.maxConnections = limits.connections;
  const originOf = originReader(options.trustedProxies);
  const connections = new ClientConnections({ limits, metrics, originOf });
  const gateway = {
    ...options,
    connections,
    originOf,
    slots: new ExchangeSlots(limits, metrics),
    invalidResponses: new InvalidResponses(clock),
  };
  const guarded = guardWith(options.log);
  server
    .on("connection", (socket: Socket) => {
      guarded(socket, () => {
        const refusal = connections.add(socket);
        if (refusal !== undefined) refuseOn(socket, tooManyConnections(refusal));
      });
    })
    .on("drop", () => {
      metrics.refused("overload");
    })
    .on("request", (request, response) => {
      // Node reports every request in the bytes that it has read, also after the connection was closed for some of them.
      if (request.socket.destroyed) {
        request.isIgnored = true;
        return;
      }
      // After close(), Node keeps idle keep-alive connections open.
      response.once("close", () => {
        if (!server.listening)
          setImmediate(() => {
            server.closeIdleConnections();
          });
      });
      const { socket } = request;
      guarded(socket, () => {
        connections.whenTurn(socket, response, () => {
          guarded(socket, () => {
            const exchange = { request, response, origin: originOf(request) };
            return answer(gateway, exchange, (route) => forward(options.upstreams, route, exchange));
          });
        });
      });
    })
    .on("upgrade", (request, stream, head) => {
      stream.on("error", () => stream.destroy());
      guarded(stream, () => acceptUpgrade(gateway, { request, stream, head }));
    })
    .on("clientError", (error: NodeJS.ErrnoException, stream) => {
      guarded(stream, () => {
        const status = parserStatuses[error.code ?? ""] ?? (error.code?.startsWith("HPE_") === true ? 400 : undefined);
        if (status !== undefined) metrics.refused(status === 408 ? "timeout" : "invalidRequest");
        if (status !== undefined && connections.isIdle(stream)) refuseOn(stream, invalidRequest(error), status);
        else stream.destroy();
      });
    });
  const opened = await openPort(server, {
    port,
    address,
    hint: "Choose another address or port with --address and --port",
  });
  return {
    port: opened,
    close: async (drainMilliseconds) => {
      const closed = once(server, "close");
      server.close();
      const drained = new AbortController();
      const forced = delay(options.clock, drainMilliseconds, drained.signal).then(
        () => {
          connections.closeAll();
        },
        () => undefined,
      );
      await closed;
      drained.abort();
      await forced;
    },
  };
}

class ClientRequest extends IncomingMessage {
  /** The connection was closed before the gateway began with the request. */
  isIgnored = false;

  /** Node destroys the requests of a closed connection, each with an exception, which costs more than to parse the request. */
  override destroy(error?: Error): this {
    return this.isIgnored ? this : super.destroy(error);
  }
}

const timeouts = {
  // No limit for a whole request: an upload can take any time.
  requestTimeout: 0,
  // From the connection, or from the first byte of a later request. Without a value, `requestTimeout` would disable it.
  headersTimeout: 20_000,
  connectionsCheckingInterval: 5_000,
  // Longer than load balancers keep idle connections (Google: 600 s), so that the load balancer closes them.
  keepAliveTimeout: 620_000,
  // Detects a peer that disappeared without closing the connection.
  keepAlive: true,
  keepAliveInitialDelay: 60_000,
};

/** An exception in a listener of Node's parser would end the process: it ends the connection instead. */
function guardWith(log: Log) {
  return (stream: Duplex, run: () => Promise<void> | void): void => {
    const fail = (error: unknown): void => {
      log.error({ err: error }, "a request failed unexpectedly, so its connection was closed");
      stream.destroy();
    };
    try {
      run()?.catch(fail);
    } catch (error) {
      fail(error);
    }
  };
}

async function acceptUpgrade(
  gateway: Gateway,
  { request, stream, head }: { request: IncomingMessage; stream: Duplex; head: Buffer },
): Promise<void> {
  // Node reports an upgrade before the requests ahead of it were answered. No client has to do that.
  if (!gateway.connections.isIdle(request.socket)) stream.destroy();
  // Newer versions of Node pass another stream when the request has a body.
  else if (!(stream instanceof Socket)) refuseOn(stream, upgradeWithBody());
  else {
    const exchange = { request, response: responseOn(request, stream), origin: gateway.originOf(request) };
    await answer(gateway, exchange, (route) =>
      forwardUpgrade(gateway.upstreams, route, { ...exchange, socket: stream, head }),
    );
  }
}

interface Gateway extends GatewayServerOptions {
  connections: ClientConnections;
  originOf: OriginReader;
  slots: ExchangeSlots;
  invalidResponses: InvalidResponses;
}

interface Exchange {
  request: IncomingMessage;
  response: ServerResponse;
  origin: ClientOrigin;
}

/** Routes and proxies a request, then records its outcome. Never logs its content. */
async function answer(
  gateway: Gateway,
  { request, response, origin }: Exchange,
  send: (route: Route) => Promise<number>,
): Promise<void> {
  const { metrics, clock, log, slots } = gateway;
  const releases: (() => void)[] = [];
  const since = clock.monotonicMilliseconds();
  let destination: Destination | undefined;
  let status: number;
  metrics.underWay(1);
  try {
    destination = destinationOf(request.headers);
    if (destination === undefined) {
      answerItself(request, response);
      return;
    }
    if (origin.isProxied) releases.push(slots.takeForClient(origin.address));
    const route = await routeOf(gateway, destination, { request, origin });
    releases.push(slots.takeForSandbox(route.sandbox.metadata));
    status = await gateway.invalidResponses.watch(route, () => send(route));
  } catch (thrown) {
    const error = RametError.from(thrown);
    if (response.headersSent || response.destroyed) return;
    status = refuse(response, error, destination);
    const level = status === 500 ? "error" : "debug";
    log[level]({ ...destination, status, code: error.code, error: error.message }, "refused a request");
  } finally {
    metrics.underWay(-1);
    for (const release of releases) release();
  }
  metrics.answered(status, (clock.monotonicMilliseconds() - since) / 1000);
}

/** Responds to a request that names no sandbox: a health check, or a mistake. */
function answerItself(request: IncomingMessage, response: ServerResponse): void {
  if (request.url === "/healthz") response.end("ok\n");
  else
    refuse(
      response,
      new RametError("InvalidArgument", "The request names no sandbox", { hint: namingHint }),
      undefined,
    );
}

/** A response instead of an upgrade. The connection closes after it. */
function responseOn(request: IncomingMessage, socket: Socket): ServerResponse {
  const response = new ServerResponse(request);
  response.shouldKeepAlive = false;
  response.assignSocket(socket);
  response.once("finish", () => {
    response.detachSocket(socket);
    // Not only the gateway's side: a client that keeps its own side open would keep the connection.
    socket.destroySoon();
  });
  return response;
}

/**
 * The HTTP status of each error code. E2B's clients expect 502 for an unreachable sandbox, so that a 404 always comes from the
 * program in the sandbox.
 */
const statuses: Partial<Record<ErrorCode, number>> = {
  InvalidArgument: 400,
  Unauthorized: 401,
  Forbidden: 403,
  NotFound: 502,
  SandboxNotReady: 502,
  SandboxUnreachable: 502,
  Unavailable: 503,
  Timeout: 504,
};

/** Responds with an error as JSON: `{sandboxId, port, code, message, hint, retryable}`. @returns the status */
function refuse(response: ServerResponse, error: unknown, destination: Destination | undefined): number {
  const { code, message, hint, retryable } = RametError.from(error);
  const status = statuses[code] ?? 500;
  const body = JSON.stringify({ ...destination, code, message, hint, retryable });
  // An attempt to send the sandbox's response can have set it.
  response.statusMessage = STATUS_CODES[status] ?? "";
  const headers = { "content-type": "application/json", "cache-control": "no-store" };
  response.writeHead(status, status === 503 ? { ...headers, "retry-after": "1" } : headers).end(`${body}\n`);
  return status;
}

/** The same on a connection without a response object. The connection closes after it. */
function refuseOn(
  stream: Duplex,
  { code, message, hint, retryable }: RametError,
  status = statuses[code] ?? 500,
): void {
  endWith(stream, status, `${JSON.stringify({ code, message, hint, retryable })}\n`);
}

/** The statuses of errors of Node's parser other than 400. */
const parserStatuses: Readonly<Record<string, number>> = {
  HPE_HEADER_OVERFLOW: 431,
  ERR_HTTP_REQUEST_TIMEOUT: 408,
};

function tooManyConnections(refusal: Refusal): RametError {
  const whose = refusal === "client" ? "from this client" : "";
  return new RametError("Unavailable", `The gateway has too many connections ${whose}`.trim(), { retryable: true });
}

function invalidRequest(cause: Error): RametError {
  return new RametError("InvalidArgument", `The gateway cannot read the request: ${cause.message}`, { cause });
}
