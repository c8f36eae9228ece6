import { createHash } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import * as z from "zod";
import {
  BootRequest,
  CheckpointRequest,
  IdentityRequest,
  RestoreRequest,
  StopRequest,
  RestoreInPlaceCall,
} from "../../api/cell/cell-api.ts";
import { RametError } from "../../base/errors.ts";
import { readBody } from "../../base/http.ts";
import type { Cell } from "../lifecycle/cell.ts";
import { statusOf } from "./http-status.ts";
import { sendLog } from "./log-stream.ts";
import type { TokenVerifier } from "./token-verifier.ts";

export interface CellServerOptions {
  cell: Cell;
  verifier: TokenVerifier;
  logPath: string;
}

interface Call {
  request: IncomingMessage;
  response: ServerResponse;
  url: URL;
  body: Buffer;
}

const bodyLimitBytes = 1024 * 1024;

/** The cell's HTTP server. Every call but the probes needs a token for its operation. */
export function cellServer(options: CellServerOptions): Server {
  const server = createServer((request, response) => {
    void answer(options, request, response);
  });
  server.on("upgrade", (request: IncomingMessage, socket: Duplex) => {
    void upgrade(options, request, socket);
  });
  server.keepAliveTimeout = 60_000;
  return server;
}

/** Handlers by method and operation. The operation is the last part of the path, and is named in the token. */
function routes({ cell, logPath }: CellServerOptions): Record<string, (call: Call) => unknown> {
  return {
    "GET state": () => cell.state,
    "GET loaded": () => cell.untilLoaded(),
    "GET events": ({ response }) => {
      streamStates(cell, response);
    },
    "GET logs": ({ response, url }) => sendLog(logPath, url.searchParams, response),
    "POST boot": ({ body }) => cell.boot(parsed(BootRequest, body).identity),
    "POST identity": ({ body }) => cell.adopt(parsed(IdentityRequest, body).identity),
    "POST restore": ({ body }) => cell.restore(parsed(RestoreRequest, body)),
    "POST swap": ({ body }) => cell.restoreInPlace(parsed(RestoreInPlaceCall, body)),
    "POST checkpoint": ({ body }) => cell.checkpoint(parsed(CheckpointRequest, body)),
    "POST stop": ({ body }) => cell.stop(parsed(StopRequest, body).reason),
  };
}

async function answer(options: CellServerOptions, request: IncomingMessage, response: ServerResponse): Promise<void> {
  try {
    const url = new URL(request.url ?? "/", "http://cell");
    const probe = probes[url.pathname];
    if (probe !== undefined) {
      response.writeHead(probe(options.cell) ? 200 : 503).end(`${options.cell.state.phase}\n`);
      return;
    }
    const result = await perform(options, {
      request,
      response,
      url,
      body: await readBody(request, bodyLimitBytes, "cell: the body"),
    });
    if (result !== undefined) sendJson(response, 200, result);
  } catch (error) {
    sendError(response, error);
  }
}

/** Probes of the kubelet, without a token: whether the process runs, and whether the sandbox is open to traffic. */
const probes: Record<string, (cell: Cell) => boolean> = {
  "/healthz": () => true,
  "/readyz": (cell) => cell.state.ready,
};

async function perform(options: CellServerOptions, call: Call): Promise<unknown> {
  const { method = "", headers } = call.request;
  const operation = /^\/v1\/([a-z]+)$/.exec(call.url.pathname)?.[1] ?? "";
  const handler = routes(options)[`${method} ${operation}`];
  if (handler === undefined) throw new RametError("NotFound", `cell: unknown route ${method} ${call.url.pathname}`);
  const digest = call.body.length === 0 ? undefined : createHash("sha256").update(call.body).digest("base64url");
  await options.verifier.verify(headers.authorization, operation, digest);
  return handler(call);
}

async function upgrade({ cell, verifier }: CellServerOptions, request: IncomingMessage, socket: Duplex): Promise<void> {
  socket.on("error", () => socket.destroy());
  try {
    const port = Number(/^\/v1\/ports\/(\d{1,5})$/.exec(request.url ?? "")?.[1]);
    if (!Number.isInteger(port) || request.headers.upgrade !== "tcp")
      throw new RametError("NotFound", "cell: only /v1/ports/<port> accepts an upgrade, to tcp");
    await verifier.verify(request.headers.authorization, "ports");
    const inner = await cell.dial(port);
    inner.on("error", () => socket.destroy());
    inner.on("close", () => socket.destroy());
    socket.on("close", () => inner.destroy());
    socket.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n");
    inner.pipe(socket);
    socket.pipe(inner);
  } catch (error) {
    const { code, message } = RametError.from(error);
    const body = JSON.stringify({ code, message });
    socket.end(
      `HTTP/1.1 ${statusOf(code)} ${code}\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
    );
  }
}

function streamStates(cell: Cell, response: ServerResponse): void {
  response.writeHead(200, { "content-type": "application/x-ndjson" });
  const send = (state: Cell["state"]): void => void response.write(`${JSON.stringify(state)}\n`);
  send(cell.state);
  const stop = cell.onChange(send);
  response.on("close", stop);
}

function parsed<T extends z.ZodType>(schema: T, body: Buffer): z.infer<T> {
  try {
    return schema.parse(JSON.parse(body.toString("utf8")));
  } catch (error) {
    const why = error instanceof z.ZodError ? z.prettifyError(error) : "not JSON";
    throw new RametError("InvalidArgument", `cell: invalid request body: ${why}`, { cause: error });
  }
}

function sendJson(response: ServerResponse, status: number, value: unknown): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
}

function sendError(response: ServerResponse, error: unknown): void {
  if (response.headersSent) return void response.destroy();
  const { code, message, hint, retryable } = RametError.from(error);
  sendJson(response, statusOf(code), { code, message, hint, retryable });
}
