import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import * as z from "zod";
import {
  BootRequest,
  CheckpointRequest,
  CredentialsRequest,
  EgressRequest,
  HoldRequest,
  IdentityRequest,
  ReleaseRequest,
  RestoreRequest,
  KeysRequest,
  StopRequest,
  reportsPort,
  RestoreInPlaceCall,
} from "../../api/wire/cell-api.ts";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import { closingResponse, endWith, readBody, statusOf } from "../../base/http.ts";
import { tolerantParse } from "../../base/tolerant-parse.ts";
import { type CellProver, proofHeaders, proofPath } from "../client/cell-proof.ts";
import type { Activity } from "../checkpoint/activity.ts";
import type { Cell } from "../lifecycle/cell.ts";
import { reports, sendError, sendJson } from "./reports.ts";
import type { TcpProbes } from "./tcp-probes.ts";
import type { TokenVerifier } from "./token-verifier.ts";

export interface CellServerOptions {
  cell: Cell;
  verifier: TokenVerifier;
  prover: CellProver;
  logPath: string;
  /** @default the Pod has no `tcpSocket` probes */
  tcpProbes?: TcpProbes;
  /** Follows the connections of clients to the sandbox. @default it is not reported */
  activity?: Activity;
  /** Counts the responses of the server. @default they are not counted */
  responses?: OpenResponses;
  /** Writes a line to the cell's own log. @default nothing is written */
  report?: (message: string, detail: Record<string, unknown>) => void;
}

const bodyLimitBytes = 1024 * 1024;
/** Connections without a valid token: probes of the kubelet, calls that just arrived (also a burst of them), and strangers. */
const maxStrangers = 256;
/** Connections of gateways to ports of the sandbox, as many as link accepts. */
const maxTunnels = 2048;

const limits = {
  headersTimeout: 5_000,
  // For headers and body together. An operation may take longer.
  requestTimeout: 10_000,
  connectionsCheckingInterval: 2_500,
  keepAliveTimeout: 60_000,
  // Detects a peer that disappeared without closing the connection.
  keepAlive: true,
  keepAliveInitialDelay: 60_000,
};

/**
 * The cell's HTTP server. Every call but the probes and the cell's own proof needs a token for its operation. The port is open to every Pod, so the
 * cell verifies the token before it reads a body, and closes the oldest connection without a token when there are too many.
 */
export function cellServer(options: CellServerOptions): Server {
  const strangers = new Set<Duplex>();
  const tunnels = new Set<Duplex>();
  const page = reports(options);
  const server = createServer({ ...limits, ServerResponse: closingResponse() }, (request, response) => {
    response.on("error", () => response.destroy());
    void answer({ ...options, strangers }, request, response);
  });
  for (const counted of [server, page]) options.responses?.follow(counted);
  server.on("connection", (socket: Socket) => {
    strangers.add(socket);
    socket.once("close", () => strangers.delete(socket));
    const [oldest] = strangers;
    if (strangers.size > maxStrangers) oldest?.destroy();
  });
  server.on("upgrade", (request: IncomingMessage, socket: Duplex) => {
    void upgrade({ ...options, strangers, tunnels, page }, request, socket);
  });
  return server;
}

/** Handlers by method and operation. The operation is the last part of the path, and is named in the token. */
function routes({ cell, verifier, report, activity }: CellServerOptions): Record<string, (body: Buffer) => unknown> {
  const parsed = <T extends z.ZodType>(schema: T, body: Buffer): z.infer<T> => parseBody(schema, body, report);
  return {
    "GET state": async () => ({ ...cell.state, ...defined({ activity: await activity?.sinceCapture() }) }),
    "GET loaded": () => cell.untilLoaded(),
    "POST boot": (body) => cell.boot(parsed(BootRequest, body).identity),
    "POST identity": (body) => cell.adopt(parsed(IdentityRequest, body).identity),
    "POST keys": (body) => {
      verifier.replaceKeys(parsed(KeysRequest, body).keys);
      return cell.state;
    },
    "POST egress": (body) => cell.setEgress(parsed(EgressRequest, body).policy),
    "POST credentials": (body) => cell.setCredentials(parsed(CredentialsRequest, body).credentials),
    "POST restore": (body) => cell.restore(parsed(RestoreRequest, body)),
    "POST swap": (body) => cell.restoreInPlace(parsed(RestoreInPlaceCall, body)),
    "POST checkpoint": (body) => cell.checkpoint(parsed(CheckpointRequest, body)),
    "POST hold": (body) => cell.hold(parsed(HoldRequest, body)),
    "POST release": (body) => cell.release(parsed(ReleaseRequest, body)),
    "POST sync": () => cell.sync(),
    "POST end": () => {
      cell.termination.intend();
      return cell.state;
    },
    "POST stop": (body) => cell.stop(parsed(StopRequest, body).reason),
  };
}

interface Guarded extends CellServerOptions {
  strangers: Set<Duplex>;
}

async function answer(options: Guarded, request: IncomingMessage, response: ServerResponse): Promise<void> {
  try {
    const url = urlOf(request);
    const probe = probes[url.pathname];
    if (probe !== undefined) {
      response.writeHead(probe(options.cell) ? 200 : 503).end(`${options.cell.state.phase}\n`);
      return;
    }
    const tcpProbe = options.tcpProbes?.requested(url.pathname);
    if (tcpProbe !== undefined) {
      await options.tcpProbes?.answer(tcpProbe, request, response);
      return;
    }
    if (url.pathname === proofPath) {
      const proof = options.prover.prove(request.headersDistinct[proofHeaders.nonce]?.[0]);
      response.writeHead(204, { [proofHeaders.key]: options.prover.publicKey, [proofHeaders.proof]: proof }).end();
      return;
    }
    sendJson(response, 200, await perform(options, request, url));
  } catch (error) {
    sendError(response, error);
  }
}

function urlOf({ url = "/" }: IncomingMessage): URL {
  const parsed = URL.canParse(url, "http://cell") ? new URL(url, "http://cell") : undefined;
  if (parsed === undefined) throw new RametError("InvalidArgument", "cell: the request's target is not a URL");
  return parsed;
}

/** Probes of the kubelet, without a token: whether the process runs, and whether the sandbox is open to traffic. */
const probes: Record<string, (cell: Cell) => boolean> = {
  "/healthz": () => true,
  "/readyz": (cell) => cell.state.ready,
};

async function perform(options: Guarded, request: IncomingMessage, url: URL): Promise<unknown> {
  const { method = "", headers } = request;
  const operation = /^\/v1\/([a-z]+)$/.exec(url.pathname)?.[1] ?? "";
  const handler = routes(options)[`${method} ${operation}`];
  if (handler === undefined) throw new RametError("NotFound", `cell: unknown route ${method} ${url.pathname}`);
  const token = await options.verifier.verify(headers.authorization, operation);
  options.strangers.delete(request.socket);
  if (Number(headers["content-length"] ?? 0) > bodyLimitBytes)
    throw new RametError("InvalidArgument", `cell: the body is larger than ${bodyLimitBytes} bytes`);
  const body = await readBody(request, bodyLimitBytes, "cell: the body");
  token.requireBody(body);
  return handler(body);
}

async function upgrade(
  { cell, verifier, strangers, tunnels, page, activity }: Guarded & { tunnels: Set<Duplex>; page: Server },
  request: IncomingMessage,
  socket: Duplex,
): Promise<void> {
  const isClosed = (): boolean => socket.destroyed;
  socket.on("error", () => socket.destroy());
  try {
    const port = Number(/^\/v1\/ports\/(\d{1,5})$/.exec(request.url ?? "")?.[1]);
    if (!Number.isInteger(port) || request.headers.upgrade !== "tcp")
      throw new RametError("NotFound", "cell: only /v1/ports/<port> accepts an upgrade, to tcp");
    await verifier.verify(request.headers.authorization, "ports");
    // Its "close" is over, so nothing would remove it from the tunnels.
    if (isClosed()) return;
    if (tunnels.size >= maxTunnels)
      throw new RametError("Unavailable", `port ${port}: the sandbox has ${maxTunnels} open connections`);
    strangers.delete(socket);
    tunnels.add(socket);
    socket.once("close", () => tunnels.delete(socket));
    if (port === reportsPort) {
      socket.write(switched);
      page.emit("connection", socket);
      return;
    }
    const inner = await cell.dial(port);
    if (isClosed()) return void inner.destroy();
    activity?.follow(inner);
    inner.on("error", () => socket.destroy());
    inner.on("close", () => socket.destroy());
    socket.on("close", () => inner.destroy());
    socket.write(switched);
    inner.pipe(socket);
    socket.pipe(inner);
  } catch (error) {
    const { code, message } = RametError.from(error);
    endWith(socket, { status: statusOf(code), body: JSON.stringify({ code, message }) });
  }
}

const switched = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n";

/** Below these fields of a body an unknown field is refused: without it, the sandbox or its data would be less protected. */
const closedFields = ["policy", "credentials", "keys", "grant"];

/** A controller of a later release may send fields that this cell does not know (docs/decisions/0021-older-cells.md). */
function parseBody<T extends z.ZodType>(schema: T, body: Buffer, report: CellServerOptions["report"]): z.infer<T> {
  try {
    const { value, ignored } = tolerantParse(schema, JSON.parse(body.toString("utf8")), closedFields);
    if (ignored.length > 0) report?.("ignored unknown fields of a call", { fields: ignored });
    return value;
  } catch (error) {
    const why = error instanceof z.ZodError ? z.prettifyError(error) : "not JSON";
    throw new RametError("InvalidArgument", `cell: invalid request body: ${why}`, { cause: error });
  }
}

/** The responses that servers have begun and not finished. */
export class OpenResponses {
  #count = 0;
  readonly #waiting: (() => void)[] = [];

  /** Counts the responses of a server. */
  follow(server: Server): void {
    server.on("request", (_, response) => {
      this.#count++;
      response.once("close", () => {
        this.#count--;
        if (this.#count === 0) for (const done of this.#waiting.splice(0)) done();
      });
    });
  }

  /** Resolves as soon as no response is open: each was sent, or its client has left. */
  async finished(): Promise<void> {
    if (this.#count > 0) await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }
}
