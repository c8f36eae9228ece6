import { once } from "node:events";
import { IncomingMessage, type Server, ServerResponse, createServer } from "node:http";
import { type ServerHttp2Session, constants } from "node:http2";
import { Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { TLSSocket } from "node:tls";
import { RametError } from "../base/errors.ts";
import { closingResponse, openPort } from "../base/http.ts";
import type { Log } from "../base/log.ts";
import { type AnswerOptions, InvalidResponses, answer, programSpeaksHttp2 } from "./answer.ts";
import { type OriginReader, originReader } from "./client-origin.ts";
import { ClientConnections, onFirstBytes } from "./connections.ts";
import { type Exchange, http1Request, http1Response } from "./exchange.ts";
import { destroyAtEnd, forwardUpgrade, upgradeWithBody } from "./forward-upgrade.ts";
import { forward } from "./forward.ts";
import { type Http2Request, forwardHttp2, http2Request, http2Response } from "./http2/forward.ts";
import { Http2Clients } from "./http2/server.ts";
import { Http2Upstreams } from "./http2/upstreams.ts";
import { ExchangeSlots, type GatewayLimits } from "./limits.ts";
import type { Refusal } from "./metrics.ts";
import { refuse, refuseOn } from "./refusal.ts";
import { TlsClients, type TlsFiles } from "./tls.ts";
import type { Upstreams } from "./upstreams.ts";

export interface GatewayServerOptions extends Omit<AnswerOptions, "slots" | "invalidResponses"> {
  upstreams: Upstreams;
  /** 0 selects a free port. */
  port: number;
  address: string;
  limits: GatewayLimits;
  /** The networks of the proxies in front of the gateway, such as `10.0.0.0/8`. */
  trustedProxies: readonly string[];
  /** The certificate. @default the gateway serves without TLS */
  tls?: TlsFiles | undefined;
}

export interface GatewayServer {
  port: number;
  /** Stops accepting connections, waits for requests in progress, and closes the remaining connections after that time. */
  close(drainMilliseconds: number): Promise<void>;
}

interface Gateway extends GatewayServerOptions {
  connections: ClientConnections;
  originOf: OriginReader;
  slots: ExchangeSlots;
  invalidResponses: InvalidResponses;
  http2Upstreams: Http2Upstreams;
}

/**
 * Serves the ports of sandboxes over HTTP/1.1 and HTTP/2, on one port.
 * @throws RametError `Unavailable` when the port cannot be opened
 */
export async function serveGateway(options: GatewayServerOptions): Promise<GatewayServer> {
  const { port, address, limits, metrics, clock } = options;
  const originOf = originReader(options.trustedProxies);
  const connections = new ClientConnections({ limits, metrics, originOf });
  const http2Upstreams = new Http2Upstreams(options.upstreams, clock);
  const slots = new ExchangeSlots(limits, metrics);
  const invalidResponses = new InvalidResponses(clock);
  const gateway = { ...options, connections, originOf, slots, invalidResponses, http2Upstreams };
  const guarded = guardWith(options.log);
  const server = serveHttp1(gateway, guarded);
  server.maxConnections = limits.connections;
  const http2 = new Http2Clients({
    metrics,
    clock,
    onRequest: (request, session) => {
      guarded(request.stream, () => answerHttp2(gateway, request, session));
    },
  });
  // Node's own listeners start to parse HTTP/1.1.
  const parsers = server.listeners("connection") as ((socket: Socket) => void)[];
  const parse = (socket: Socket): void => {
    for (const parser of parsers) parser.call(server, socket);
  };
  const tls = options.tls && (await acceptTls(gateway, options.tls, { parse, http2, guarded }));
  server.removeAllListeners("connection").on("connection", (socket: Socket) => {
    guarded(socket, () => {
      const refusal = connections.add(socket);
      const needsTls = tls !== undefined && options.tls?.isOptional !== true;
      if (refusal !== undefined && !needsTls) refuseOn(socket, tooManyConnections(refusal));
      else if (refusal !== undefined) socket.destroy();
      else if (needsTls) tls.accept(socket);
      else acceptPlain(gateway, socket, { parse, http2, tls });
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
      http2.close();
      const cancelForce = clock.schedule(drainMilliseconds, () => {
        connections.closeAll();
      });
      await closed;
      cancelForce();
      http2Upstreams.close();
      tls?.close();
    },
  };
}

interface Protocols {
  /** Parses HTTP/1.1 on a connection. */
  parse: (socket: Socket) => void;
  http2: Http2Clients;
}

/** @param protocols `tls` accepts clients that choose TLS */
function acceptPlain(
  { clock, metrics }: Gateway,
  socket: Socket,
  { parse, http2, tls }: Protocols & { tls: TlsClients | undefined },
): void {
  onFirstBytes(socket, clock, {
    http1: () => {
      parse(socket);
    },
    http2: () => {
      http2.accept(socket);
    },
    tls:
      tls &&
      ((): void => {
        tls.accept(socket);
      }),
    timeout: () => {
      metrics.refused("timeout");
      refuseOn(socket, invalidRequest("it is incomplete"), 408);
    },
  });
}

function acceptTls(
  { clock, log, connections }: Gateway,
  files: TlsFiles,
  { parse, http2, guarded }: Protocols & { guarded: Guard },
): Promise<TlsClients> {
  const onSecure = (socket: TLSSocket): void => {
    guarded(socket, () => {
      connections.addSecure(socket);
      if (socket.alpnProtocol === "h2") http2.accept(socket);
      else parse(socket);
    });
  };
  return TlsClients.open({ files, clock, log, onSecure });
}

type Guard = (stream: Duplex, run: () => Promise<void> | void) => void;

function serveHttp1(gateway: Gateway, guarded: Guard): Server<typeof IgnorableRequest> {
  const { connections, metrics, originOf, upstreams } = gateway;
  const ServerResponse = closingResponse(gateway.clock);
  const server = createServer({ ...timeouts, IncomingMessage: IgnorableRequest, ServerResponse });
  return server
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
            const origin = originOf(request);
            const exchange = { request: http1Request(request), response: http1Response(response), origin };
            return answer(gateway, exchange, (route, sent) => forward(upstreams, route, sent));
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
        if (status !== undefined && connections.isIdle(stream)) refuseOn(stream, invalidRequest(error.message), status);
        else stream.destroy();
      });
    });
}

async function answerHttp2(gateway: Gateway, request: Http2Request, { socket }: ServerHttp2Session): Promise<void> {
  const { stream, headers } = request;
  const { originOf, upstreams, http2Upstreams } = gateway;
  const origin = originOf({ socket, headers });
  const exchange = { request: http2Request(request), response: http2Response(stream), origin };
  if (sizeOf(request.rawHeaders) > mostHeaderBytes) {
    gateway.metrics.refused("invalidRequest");
    refuse(exchange, invalidRequest(`its headers have more than ${mostHeaderBytes} bytes`), undefined, 431);
    return;
  }
  if (headers.expect === "100-continue") stream.additionalHeaders({ ":status": 100 });
  await answer(gateway, exchange, (route, sent) =>
    programSpeaksHttp2(sent, route)
      ? forwardHttp2(http2Upstreams, route, sent, stream)
      : forward(upstreams, route, sent),
  );
  // A client must not continue to send what nobody reads (RFC 9113, 8.1).
  // A reset drops the frames that Node has not passed on, so it must come later.
  if (!stream.closed && !stream.readableEnded && !stream.endAfterHeaders)
    setImmediate(() => {
      stream.close(constants.NGHTTP2_NO_ERROR);
    });
}

class IgnorableRequest extends IncomingMessage {
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
function guardWith(log: Log): Guard {
  return (stream, run) => {
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
    const [response, origin] = [responseOn(request, stream), gateway.originOf(request)];
    const exchange = { request: http1Request(request), response: http1Response(response), origin };
    const upgrade = { request, response, origin, socket: stream, head, endNotice: destroyAtEnd(stream) };
    await answer(
      gateway,
      exchange,
      (route, { request: { url } }) => forwardUpgrade(gateway.upstreams, route, { ...upgrade, url }),
      async (clientApi) => {
        const end = await endWithKey(gateway, exchange, stream);
        return clientApi.upgrade({ ...upgrade, url: exchange.request.url }).finally(end);
      },
    );
  }
}

/**
 * Ends a connection to the client API with the key that has opened it, also if the client takes nothing and the end of the server's
 * side is not seen. @returns a function for its end
 */
async function endWithKey(
  { sandboxTokens }: Gateway,
  { request, origin }: Exchange,
  stream: Socket,
): Promise<() => void> {
  const over = ((await sandboxTokens?.keys.sentBy(request, origin.address)) ?? []).map((value) =>
    sandboxTokens?.keys.endWhenRevoked(value, () => stream.destroy()),
  );
  return () => {
    for (const stop of over) stop?.();
  };
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

/** As for HTTP/1.1. Node enforces it only after the client has acknowledged the settings of the connection. */
const mostHeaderBytes = 16 * 1024;

function sizeOf(rawHeaders: readonly string[]): number {
  return rawHeaders.reduce((sum, part) => sum + part.length, 0);
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

function invalidRequest(why: string): RametError {
  return new RametError("InvalidArgument", `The gateway cannot read the request: ${why}`);
}
