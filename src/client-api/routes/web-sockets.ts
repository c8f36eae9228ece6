import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import type { FastifyInstance } from "fastify";
import { WebSocketServer, type WebSocket } from "ws";
import type { HeldBytes } from "../../base/byte-budget.ts";
import { canceled, type Clock } from "../../base/clock.ts";
import { RametError } from "../../base/errors.ts";
import { endWith } from "../../base/http.ts";
import type { Caller, Callers, Need } from "../keys/callers.ts";
import { admit, apiKeyIn } from "./admission.ts";

/** Serves an opened WebSocket until it returns. A failure is sent to the client, and its code closes the connection. */
export type ServeSocket = (socket: ClientSocket) => Promise<void>;

/** A request to open a WebSocket, of a client that may. */
export interface SocketCall {
  params: Readonly<Record<string, string>>;
  caller: Caller;
  /** Aborts when the connection has closed. */
  signal: AbortSignal;
}

/** A path at which clients open WebSockets. */
export interface WebSocketPath {
  /** Its groups are the parameters. */
  path: RegExp;
  callers: Callers;
  needs: readonly Need[];
  /** The parameter of the query with the key of a client that cannot send headers. @default keys are in headers */
  keyParameter?: string;
  /** Prepares the connection. @throws RametError which is the answer to the request */
  open: (call: SocketCall) => Promise<ServeSocket>;
  /** The answer to a request that is refused. */
  refusal: (error: unknown) => { status: number; type: string; body: string };
  /** The message about a failure after that. */
  failure: (error: RametError) => object;
}

export interface ClientSocket {
  /** Resolves when the kernel has the message, so that a slow reader slows down what it reads. */
  send(message: object): Promise<void>;
  /**
   * Handles the messages of the client one after another, and reads no more of them while some wait: a program that does not read its
   * input holds back its user. Errors become messages.
   */
  onMessage(handle: (text: string) => Promise<void>): void;
  /** Counts bytes of messages that were handled and are still needed, until the returned function is called. */
  keep(bytes: number): () => void;
  /** Tells the client about a failure, and leaves the connection open. */
  report(error: unknown): Promise<void>;
}

declare module "fastify" {
  interface FastifyInstance {
    webSockets: WebSockets;
  }
}

const mostMessageBytes = 1024 * 1024;

interface WebSocketsOptions {
  clock: Clock;
  /** The path of a request, as the dialect that recognizes it says. */
  pathOf: (request: IncomingMessage) => string;
  /** The answer of the dialect that has the path; undefined: none has. */
  refusalAt: (path: string, error: unknown) => { status: number; body: object } | undefined;
}

/** The WebSockets of a server. Those at other paths are refused. */
export class WebSockets {
  readonly #server: FastifyInstance;
  readonly #clock: Clock;
  readonly #pathOf: WebSocketsOptions["pathOf"];
  readonly #refusalAt: WebSocketsOptions["refusalAt"];
  readonly #sockets = new WebSocketServer({ noServer: true, maxPayload: mostMessageBytes });
  readonly #paths: WebSocketPath[] = [];

  constructor(server: FastifyInstance, options: WebSocketsOptions) {
    this.#server = server;
    this.#clock = options.clock;
    this.#pathOf = options.pathOf;
    this.#refusalAt = options.refusalAt;
    server.server.on("upgrade", (request, connection, head) => {
      connection.on("error", () => {
        connection.destroy();
      });
      void this.#upgrade(request, connection, head);
    });
    // The server waits for open connections.
    server.addHook("preClose", (done) => {
      for (const socket of this.#sockets.clients) socket.close(1001);
      done();
    });
  }

  add(path: WebSocketPath): void {
    this.#paths.push(path);
  }

  async #upgrade(request: IncomingMessage, connection: Duplex, head: Buffer): Promise<void> {
    const [pathname = "", query] = this.#pathOf(request).split("?");
    const path = this.#paths.find((each) => each.path.test(pathname));
    try {
      if (path === undefined) throw new RametError("NotFound", "There is no WebSocket at this path");
      const { serve, held } = await this.#admitted(path, request, { pathname, query });
      this.#sockets.handleUpgrade(request, connection, head, (socket) => {
        const input = countInput(socket, connection, held);
        void this.#serve(socket, { serve, input, failure: path.failure });
      });
    } catch (error) {
      endWith(connection, path?.refusal(error) ?? this.#refusal(pathname, error));
    }
  }

  #refusal(pathname: string, error: unknown): ReturnType<WebSocketPath["refusal"]> {
    const refusal = this.#refusalAt(pathname, error);
    return refusal === undefined ? plainRefusal(error) : jsonRefusal(refusal);
  }

  /** @throws RametError `NotFound`, `Unauthorized`, `Forbidden`, `TooManyRequests`, `Conflict` */
  async #admitted(
    { path, callers, needs, keyParameter, open }: WebSocketPath,
    request: IncomingMessage,
    { pathname, query }: { pathname: string; query: string | undefined },
  ): Promise<{ serve: ServeSocket; held: HeldBytes }> {
    const { socket: connection } = request;
    const inQuery = keyParameter && (new URLSearchParams(query).get(keyParameter) ?? undefined);
    const caller = await admit(callers, apiKeyIn(request.headers) ?? inQuery, request);
    await callers.require(caller, ...needs);
    // It does not close a second time.
    if (connection.destroyed) throw canceled("The WebSocket");
    const end = (): void => {
      connection.destroy();
    };
    connection.once("close", callers.endWhenRevoked(caller, end, needs));
    this.#server.connections.authenticated(connection);
    const { held, release } = this.#server.limits.enter(connection, caller, socketBytes);
    connection.once("close", release);
    const ending = new AbortController();
    connection.once("close", () => {
      ending.abort();
    });
    const params = { ...path.exec(pathname)?.groups };
    return { serve: await open({ params, caller, signal: ending.signal }), held };
  }

  async #serve(socket: WebSocket, { serve, input, failure }: Serving): Promise<void> {
    const send = (message: object): Promise<void> => sendTo(socket, message);
    const report = (error: unknown): Promise<void> => send(failure(RametError.from(error)));
    socket.on("error", () => {
      socket.terminate();
    });
    const stopHeartbeat = heartbeat(socket, this.#clock);
    try {
      await serve({
        send,
        report,
        keep: input.keep,
        onMessage: (handle) => {
          handleInOrder(socket, (text) => handle(text).catch(report), input.queued);
        },
      });
      socket.close(1000);
    } catch (error) {
      const { code } = RametError.from(error);
      if (socket.readyState === socket.OPEN) await report(error);
      socket.close(1011, code);
    } finally {
      stopHeartbeat();
    }
  }
}

interface Serving extends Pick<WebSocketPath, "failure"> {
  serve: ServeSocket;
  input: InputCount;
}

export function jsonRefusal({ status, body }: { status: number; body: object }) {
  return { status, type: "application/json", body: JSON.stringify(body) };
}

function plainRefusal(error: unknown) {
  return { status: 404, type: "text/plain; charset=utf-8", body: `${RametError.from(error).message}\n` };
}

/** What a WebSocket takes besides the messages of its client. */
const socketBytes = 64 * 1024;

interface InputCount extends Pick<ClientSocket, "keep"> {
  /** Gets the size of the queue of messages. */
  queued: (bytes: number) => void;
}

/**
 * Counts what a client has sent and nobody has read, or is still needed, a message that has not ended, and answers that the client has
 * not read. The connection ends when it is too much.
 */
function countInput(socket: WebSocket, connection: Duplex, held: HeldBytes): InputCount {
  let [queuedBytes, begunBytes, keptBytes] = [0, 0, 0];
  const count = (): void => {
    const { bufferedAmount } = socket;
    try {
      held.hold(socketBytes + queuedBytes + begunBytes + keptBytes + bufferedAmount);
    } catch {
      socket.terminate();
    }
    // Each ping of a client gets an answer.
    if (bufferedAmount > mostWaitingBytes) socket.terminate();
  };
  connection.on("data", (chunk: Buffer) => {
    begunBytes += chunk.length;
    count();
  });
  socket.on("message", () => {
    begunBytes = 0;
  });
  return {
    queued: (bytes) => {
      queuedBytes = bytes;
      count();
    },
    keep: (bytes) => {
      keptBytes += bytes;
      count();
      return () => {
        keptBytes -= bytes;
        count();
      };
    },
  };
}

export function handleInOrder(
  socket: WebSocket,
  handle: (text: string) => Promise<void>,
  queued: (bytes: number) => void = () => undefined,
): void {
  let waitingBytes = 0;
  let handled = Promise.resolve();
  socket.on("message", (data) => {
    // Messages are Buffers, as the default binaryType of `ws` says.
    const text = (data as Buffer).toString();
    const bytes = text.length + messageOverheadBytes;
    waitingBytes += bytes;
    if (waitingBytes > mostWaitingBytes) socket.terminate();
    else if (waitingBytes > pausedFromBytes) socket.pause();
    queued(waitingBytes);
    handled = handled
      .then(() => handle(text))
      .finally(() => {
        waitingBytes -= bytes;
        queued(waitingBytes);
        if (waitingBytes <= pausedFromBytes) socket.resume();
      });
  });
}

/** What a message takes in memory besides its text. */
const messageOverheadBytes = 256;
const pausedFromBytes = 64 * 1024;
/** More than a pause leaves: a message, and the small ones in the bytes that were read before it. */
const mostWaitingBytes = 4 * mostMessageBytes;

function sendTo(socket: WebSocket, message: object): Promise<void> {
  return new Promise((resolve) => {
    socket.send(JSON.stringify(message), () => {
      resolve();
    });
  });
}

/** Shorter than load balancers keep a silent connection. */
const heartbeatMilliseconds = 30_000;

/** Ends the connection of a client that does not respond. @returns a function that stops it */
function heartbeat(socket: WebSocket, clock: Clock): () => void {
  let isAlive = true;
  socket.on("pong", () => {
    isAlive = true;
  });
  let cancel = (): void => undefined;
  const arm = (): void => {
    cancel = clock.schedule(heartbeatMilliseconds, () => {
      // The answer of a client that is held back is not read either.
      if (!isAlive && !socket.isPaused) {
        socket.terminate();
        return;
      }
      isAlive = false;
      socket.ping();
      arm();
    });
  };
  arm();
  return () => {
    cancel();
  };
}
