import { randomUUID } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { Readable } from "node:stream";
import {
  errorCodes,
  fastify,
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  LogController,
} from "fastify";
import type { Clock } from "../base/clock.ts";
import { RametError, resultOr } from "../base/errors.ts";
import { closingResponse, readBody } from "../base/http.ts";
import type { Log } from "../base/log.ts";
import { Connections } from "./connections.ts";
import type { ClientApiMetrics } from "./metrics.ts";
import { admitRequests } from "./routes/admission.ts";
import { ClientLimits } from "./routes/client-limits.ts";
import { notJson } from "./routes/route.ts";
import { WebSockets } from "./routes/web-sockets.ts";

/** A part of the server that speaks the API of one client. */
export interface Dialect {
  /** The path under which the dialect answers a request that it recognizes by its headers; undefined for requests of others. */
  pathOf?: (request: IncomingMessage) => string | undefined;
  /** The answer to a request at a path of the dialect that no route gets; undefined at paths of others. */
  refusalAt?: (path: string, error: unknown) => { status: number; body: object } | undefined;
  register(server: FastifyInstance): void;
}

export interface ServerOptions {
  /** 0 selects a free port. */
  port: number;
  address: string;
  dialects: readonly Dialect[];
  metrics: ClientApiMetrics;
  clock: Clock;
  log: Log;
}

export interface ClientApiServer {
  port: number;
  /** Stops accepting connections, and waits for requests in progress. */
  close(): Promise<void>;
}

/** The largest body of a request. Files go to sandboxes directly. */
const bodyLimitBytes = 1024 * 1024;

/** @throws RametError `Unavailable` when the port cannot be opened */
export async function serveClientApi(options: ServerOptions): Promise<ClientApiServer> {
  const { port, address, dialects, metrics, clock, log } = options;
  const firstOf = <T>(ask: (dialect: Dialect) => T | undefined): T | undefined =>
    dialects.map(ask).find((each) => each !== undefined);
  const pathOf = (request: IncomingMessage): string =>
    firstOf((dialect) => dialect.pathOf?.(request)) ?? request.url ?? "/";
  const refusalAt = (path: string, error: unknown) => firstOf((dialect) => dialect.refusalAt?.(path, error));
  const server = fastify({
    loggerInstance: log as FastifyBaseLogger,
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: bodyLimitBytes,
    // Ids of snapshots and links for uploads are longer than fastify's default.
    routerOptions: { maxParamLength: 1_000 },
    genReqId: ({ headers }) => requestIdOf(headers["x-request-id"]),
    // For uploads, which take as long as their clients need.
    requestTimeout: longestUploadMilliseconds,
    http: {
      headersTimeout: longestRequestMilliseconds,
      connectionsCheckingInterval: 5_000,
      ServerResponse: closingResponse(clock),
    },
    frameworkErrors: (error, request, reply) => {
      answerUnreadablePath(error, reply, refusalAt(request.url, error));
    },
    rewriteUrl: pathOf,
    // Longer than load balancers keep idle connections (Google: 600 s), so that the load balancer closes them.
    keepAliveTimeout: 620_000,
    forceCloseConnections: "idle",
  });
  server.removeContentTypeParser(["application/json", "text/plain"]);
  // Some clients send the content type of JSON without a body.
  server.addContentTypeParser("*", parseBody);
  const connections = new Connections(clock);
  server.decorate("connections", connections);
  server.decorate("limits", new ClientLimits());
  server.decorate("webSockets", new WebSockets(server, { clock, pathOf, refusalAt }));
  server.server.on("connection", (socket) => {
    // Each request of a connection waits for its end, also the pipelined ones.
    socket.setMaxListeners(0);
    connections.add(socket);
  });
  let isClosing = false;
  server.addHook("onSend", (request, reply, payload, next) => {
    // The connection would otherwise stay open for the next request, and the server would wait for that.
    if (isClosing || connections.isStranger(request.raw.socket)) void reply.header("connection", "close");
    if (busyStatuses.has(reply.statusCode) && !reply.hasHeader("retry-after")) void reply.header("retry-after", "1");
    next(null, payload);
  });
  server.addHook("onRequest", (request, reply, next) => {
    void reply.header("x-request-id", request.id);
    if (request.routeOptions.config.isLong !== true) limitTime(request, clock);
    next();
  });
  admitRequests(server);
  server.addHook("onResponse", (request, reply, next) => {
    // The pattern of the route: paths contain ids.
    const route = request.routeOptions.url ?? "unknown";
    const { method, id } = request;
    const { statusCode: status } = reply;
    metrics.answered(`${method} ${route}`, status, reply.elapsedTime / 1000);
    log.info({ id, method, route, status, milliseconds: Math.round(reply.elapsedTime) }, "answered a request");
    next();
  });
  for (const dialect of dialects) {
    await server.register((instance, _options, done) => {
      dialect.register(instance);
      done();
    });
  }
  try {
    await server.listen({ port, host: address });
  } catch (cause) {
    throw new RametError("Unavailable", `Cannot listen on ${address}, port ${port}: ${String(cause)}`, {
      hint: "Choose another address or port with --address and --port",
      cause,
    });
  }
  const opened = server.server.address();
  return {
    port: typeof opened === "object" && opened !== null ? opened.port : port,
    close: async () => {
      isClosing = true;
      const cancel = clock.schedule(longestDrainMilliseconds, () => {
        server.server.closeAllConnections();
      });
      await server.close().finally(cancel);
    },
  };
}

/** The time limits of a request until its end. A client that sends slowly must not occupy the server. */
const longestRequestMilliseconds = 20_000;
const longestUploadMilliseconds = 3_600_000;

/** Longer than any operation of a client but uploads and streams. */
const longestDrainMilliseconds = 60_000;

/** Clients that get one of these repeat the request. */
const busyStatuses: ReadonlySet<number> = new Set([429, 503]);

/** A path that cannot be decoded, or with a part that is too long. The JavaScript SDK of E2B reads `code`. */
function answerUnreadablePath({ message }: Error, reply: FastifyReply, ofDialect?: { body: object }): void {
  const body = { code: 400, message: `The server cannot read the path: ${message.slice(0, 200)}` };
  void reply.code(400).send(ofDialect?.body ?? body);
}

function limitTime({ raw }: FastifyRequest, clock: Clock): void {
  const cancel = clock.schedule(longestRequestMilliseconds, () => {
    if (!raw.complete) raw.destroy();
  });
  raw.once("end", cancel);
  raw.once("close", cancel);
}

/** Collects a body and parses it as JSON. */
async function parseBody(request: FastifyRequest, payload: Readable): Promise<unknown> {
  const { bodyLimit } = request.routeOptions;
  if (Number(request.headers["content-length"] ?? 0) > bodyLimit) throw new errorCodes.FST_ERR_CTP_BODY_TOO_LARGE();
  // A connection whose body is too large still gets the answer.
  const whole = payload.iterator({ destroyOnReturn: false });
  const body = await readBody(whole, bodyLimit, "The body").catch((error: unknown) => {
    if (error instanceof RametError) throw new errorCodes.FST_ERR_CTP_BODY_TOO_LARGE();
    throw Object.assign(error as Error, { statusCode: 400 });
  });
  const text = body.toString();
  request.held.hold(parsedBytes(text));
  return parseJson(text);
}

/**
 * About as much memory as the text takes once it is parsed: an object takes more than its characters.
 * @throws RametError `InvalidArgument` if it has so many values that parsing them would delay other requests
 */
function parsedBytes(text: string): number {
  let values = 0;
  let isInString = false;
  for (let at = 0; at < text.length; at++) {
    const character = text.charCodeAt(at);
    if (character === quote) isInString = !isInString;
    else if (isInString) at += character === backslash ? 1 : 0;
    else if (character === comma || character === bracket || character === brace) values++;
  }
  if (values > mostValues) throw new RametError("InvalidArgument", `The body has more than ${mostValues} values`);
  return text.length + values * valueBytes;
}

const [quote, comma, bracket, backslash, brace] = [0x22, 0x2c, 0x5b, 0x5c, 0x7b];
const valueBytes = 64;
const mostValues = 100_000;

/** A request without a body is validated by the schema of the route. A route without a schema accepts a body that is not JSON. */
function parseJson(text: string): unknown {
  return text === "" ? undefined : resultOr(() => JSON.parse(text) as unknown, notJson);
}

/** A client's id is only used if it can be logged safely. */
function requestIdOf(given: string | string[] | undefined): string {
  return typeof given === "string" && /^[\w.-]{1,64}$/.test(given) ? given : randomUUID();
}
