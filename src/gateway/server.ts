import { once } from "node:events";
import { createServer, type IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { type Clock, delay } from "../base/clock.ts";
import type { ErrorCode } from "../base/error-codes.ts";
import { RametError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import { openPort } from "../base/open-port.ts";
import { type Destination, destinationOf, namingHint } from "./destination.ts";
import { forwardUpgrade } from "./forward-upgrade.ts";
import { forward } from "./forward.ts";
import type { GatewayMetrics } from "./metrics.ts";
import { routeOf, type RouterOptions } from "./router.ts";
import { asSocket, type Route, type Upstreams } from "./upstreams.ts";

export interface GatewayServerOptions extends RouterOptions {
  upstreams: Upstreams;
  /** 0: any that is free. */
  port: number;
  address: string;
  metrics: GatewayMetrics;
  clock: Clock;
  log: Log;
}

export interface GatewayServer {
  port: number;
  /** Takes no new connections; what is under way may go on for so long, and is cut then. */
  close(drainMilliseconds: number): Promise<void>;
}

/**
 * Serves the ports of sandboxes.
 * @throws RametError `Unavailable` when the port cannot be opened
 */
export async function serveGateway(options: GatewayServerOptions): Promise<GatewayServer> {
  const { port, address } = options;
  const server = createServer(limits);
  server.maxConnections = mostConnections;
  const connections = new Set<Duplex>();
  server
    .on("connection", (socket: Socket) => {
      connections.add(socket);
      socket.once("close", () => connections.delete(socket));
    })
    .on("request", (request, response) => {
      // A connection that was kept is not kept any more once the server closes.
      response.once("close", () => {
        if (!server.listening)
          setImmediate(() => {
            server.closeIdleConnections();
          });
      });
      void answer(options, { request, response }, (route) => forward(options.upstreams, route, { request, response }));
    })
    .on("upgrade", (request, stream, head) => {
      const socket = asSocket(stream).on("error", () => stream.destroy());
      const response = responseOn(request, socket);
      void answer(options, { request, response }, (route) =>
        forwardUpgrade(options.upstreams, route, { request, socket, head, response }),
      );
    });
  const opened = await openPort(server, { port, address, hint: "Choose others with --address and --port" });
  return {
    port: opened,
    close: async (drainMilliseconds) => {
      const closed = once(server, "close");
      server.close();
      const cutting = new AbortController();
      const cut = delay(options.clock, drainMilliseconds, cutting.signal).then(
        () => {
          for (const connection of connections) connection.destroy();
        },
        () => undefined,
      );
      await closed;
      cutting.abort();
      await cut;
    },
  };
}

/** More would be others' share: behind a balancer the next gateway takes them. */
const mostConnections = 10_000;

const limits = {
  // Of the whole request: an upload takes as long as it takes.
  requestTimeout: 0,
  // Longer than balancers keep a connection that is not used (Google's: 600 s), so that it is theirs to end it.
  keepAliveTimeout: 620_000,
  // A peer that went without a word is noticed.
  keepAlive: true,
  keepAliveInitialDelay: 60_000,
};

interface Exchange {
  request: IncomingMessage;
  response: ServerResponse;
}

/** Routes a request, sends it on, and tells what came of it. What it carries is told nobody. */
async function answer(
  options: GatewayServerOptions,
  { request, response }: Exchange,
  send: (route: Route) => Promise<number>,
): Promise<void> {
  const { metrics, clock, log } = options;
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
    status = await send(await routeOf(options, destination, request));
  } catch (thrown) {
    const error = RametError.from(thrown);
    if (response.headersSent || response.destroyed) return;
    status = refuse(response, error, destination);
    const level = status === 500 ? "error" : "debug";
    log[level]({ ...destination, status, code: error.code, error: error.message }, "a request was refused");
  } finally {
    metrics.underWay(-1);
  }
  metrics.answered(status, (clock.monotonicMilliseconds() - since) / 1000);
}

/** What names no sandbox: a balancer that asks whether the gateway is there, or somebody who has mistyped. */
function answerItself(request: IncomingMessage, response: ServerResponse): void {
  if (request.url === "/healthz") response.end("ok\n");
  else
    refuse(
      response,
      new RametError("InvalidArgument", "The request names no sandbox", { hint: namingHint }),
      undefined,
    );
}

/** An answer in place of an upgrade; the connection ends with it. */
function responseOn(request: IncomingMessage, socket: Socket): ServerResponse {
  const response = new ServerResponse(request);
  response.shouldKeepAlive = false;
  response.assignSocket(socket);
  response.once("finish", () => {
    response.detachSocket(socket);
    socket.end();
  });
  return response;
}

/**
 * By HTTP's words. What E2B's clients ask by 502 is whether a sandbox can be reached, so that 404 stays the program's own answer
 * (its edge's contract).
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

/** Answers with an error as JSON: `{sandboxId, port, code, message, hint, retryable}`. @returns the status */
function refuse(response: ServerResponse, error: unknown, destination: Destination | undefined): number {
  const { code, message, hint, retryable } = RametError.from(error);
  const status = statuses[code] ?? 500;
  const body = JSON.stringify({ ...destination, code, message, hint, retryable });
  response.writeHead(status, { "content-type": "application/json", "cache-control": "no-store" }).end(`${body}\n`);
  return status;
}
