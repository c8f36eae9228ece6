import { once } from "node:events";
import { type ServerResponse, STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";

/** The connections of clients. Each has at most one request in progress: pipelined requests wait for their turn. */
export class ClientConnections {
  /** For each open connection, the requests that were not answered yet, oldest first. */
  readonly #open = new Map<Duplex, (() => void)[]>();

  add(socket: Duplex): void {
    const waiting: (() => void)[] = [];
    this.#open.set(socket, waiting);
    socket.once("close", () => {
      this.#open.delete(socket);
      // Node never closes the responses that were waiting for the connection.
      waiting.length = 0;
    });
  }

  /** Whether no request on this connection is in progress. */
  isIdle(socket: Duplex): boolean {
    return this.#open.get(socket)?.length === 0;
  }

  /** Calls `run` when the earlier requests on this connection were answered, and never if the connection closes before. */
  whenTurn(socket: Duplex, response: ServerResponse, run: () => void): void {
    const waiting = this.#open.get(socket);
    if (waiting === undefined || waiting.length >= mostPipelined) {
      socket.destroy();
      return;
    }
    waiting.push(run);
    response.once("close", () => {
      waiting.shift();
      waiting[0]?.();
    });
    if (waiting.length === 1) run();
  }

  closeAll(): void {
    for (const socket of this.#open.keys()) socket.destroy();
  }
}

/** A few bytes of the client become a request object each. Common clients do not pipeline. */
const mostPipelined = 8;

/** Writes a whole response, without Node's parser, and closes the connection after it. */
export function endWith(stream: Duplex, status: number, body: string): void {
  if (!stream.writable) {
    stream.destroy();
    return;
  }
  const headers = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}`,
    "Content-Type: application/json",
    "Cache-Control: no-store",
    "Connection: close",
    ...(status === 503 ? ["Retry-After: 1"] : []),
    `Content-Length: ${Buffer.byteLength(body)}`,
  ];
  stream.on("error", () => stream.destroy());
  // A client that does not close its side must not keep the connection.
  void once(stream, "finish").then(
    () => stream.destroy(),
    () => stream.destroy(),
  );
  stream.end(`${headers.join("\r\n")}\r\n\r\n${body}`);
}
