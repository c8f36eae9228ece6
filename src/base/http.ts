import { once } from "node:events";
import { type IncomingMessage, STATUS_CODES, ServerResponse } from "node:http";
import { type AddressInfo, type Server, type Socket, connect } from "node:net";
import type { Duplex, Writable } from "node:stream";
import { type Clock, systemClock } from "./clock.ts";
import type { ErrorCode } from "./error-codes.ts";
import { RametError } from "./errors.ts";

/**
 * Reads an HTTP body to its end.
 * @param what names the body in the error: `The request body`
 * @throws RametError `tooLarge` when the body is larger than `limitBytes`
 */
export async function readBody(
  body: AsyncIterable<unknown>,
  limitBytes: number,
  what: string,
  tooLarge: ErrorCode = "InvalidArgument",
): Promise<Buffer> {
  const collected = new CollectedBytes();
  for await (const chunk of body as AsyncIterable<Buffer>) {
    if (collected.size + chunk.length > limitBytes)
      throw new RametError(tooLarge, `${what} is larger than ${limitBytes} bytes`);
    collected.add(chunk);
  }
  return Buffer.concat(collected.blocks());
}

/** Collects bytes in few blocks: each chunk of a sender of single bytes would take hundreds of bytes. */
export class CollectedBytes {
  readonly #full: Buffer[] = [];
  #block = Buffer.alloc(0);
  /** How many bytes of the block are used. */
  #used = 0;
  size = 0;

  add(chunk: Buffer): void {
    const copied = chunk.copy(this.#block, this.#used);
    this.#used += copied;
    this.size += chunk.length;
    if (copied === chunk.length) return;
    this.#full.push(this.#block);
    const more = chunk.subarray(copied);
    this.#block = Buffer.allocUnsafe(Math.max(more.length, Math.min(this.size, largestBlockBytes)));
    this.#used = more.copy(this.#block);
  }

  blocks(): Buffer[] {
    return [...this.#full, this.#block.subarray(0, this.#used)];
  }
}

const largestBlockBytes = 64 * 1024;

interface AnswerLimits {
  /** Names the answer in errors: `the cell's answer`. */
  what: string;
  limitBytes: number;
  /** The time limit from the start of the response to its end. @default 60 s */
  milliseconds?: number;
  clock: Clock;
}

/**
 * Reads the text of a response of a process that may be hostile. Whatever goes wrong, the connection is closed.
 * @throws RametError `Internal` when it is too large, `Timeout` (retryable); otherwise the error of the connection
 */
export async function readAnswer(
  response: IncomingMessage,
  { what, limitBytes, milliseconds = 60_000, clock }: AnswerLimits,
): Promise<string> {
  const cancel = clock.schedule(milliseconds, () => {
    const message = `${what} timed out: it did not end within ${milliseconds / 1000} s`;
    response.destroy(new RametError("Timeout", message, { retryable: true }));
  });
  try {
    return (await readBody(response, limitBytes, what, "Internal")).toString("utf8");
  } finally {
    cancel();
  }
}

interface OpenPortOptions {
  /** 0 selects a free port. */
  port: number;
  address: string;
  /** The next step of the reader if the port cannot be opened. */
  hint: string;
}

/** Starts listening on a port. @returns the port @throws RametError `Unavailable` when the port cannot be opened */
export async function openPort(server: Server, { port, address, hint }: OpenPortOptions): Promise<number> {
  server.listen(port, address);
  try {
    await once(server, "listening");
  } catch (cause) {
    throw new RametError("Unavailable", `Cannot listen on ${address}, port ${port}: ${String(cause)}`, {
      hint,
      cause,
    });
  }
  return (server.address() as AddressInfo).port;
}

/** The headers that are only for one connection: RFC 9110, section 7.6.1. */
export const hopByHopHeaders: ReadonlySet<string> = new Set([
  "connection",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);

/**
 * Returns a class of responses after which a connection closes if the request was not read to its end, such as one that was refused
 * by its headers. For the option `ServerResponse` of a server.
 */
export function closingResponse(clock: Clock = systemClock): typeof ServerResponse {
  return class<Request extends IncomingMessage> extends ServerResponse<Request> {
    override writeHead(...head: unknown[]): this {
      const { req } = this;
      const { headers, socket } = req;
      const hasBody = headers["content-length"] !== undefined || headers["transfer-encoding"] !== undefined;
      if (hasBody && !req.complete) {
        this.shouldKeepAlive = false;
        // Node closes the connection with the response, and a client that still sends would not see it.
        const closeNow = socket.destroySoon.bind(socket);
        socket.destroySoon = () => {
          if (req.complete) {
            closeNow();
            return;
          }
          socket.end();
          req.once("end", closeNow);
          socket.once("close", endIfSilent(socket, clock));
        };
      }
      return super.writeHead(...(head as Parameters<ServerResponse["writeHead"]>));
    }
  };
}

/** The rest of a request is discarded, so that its client reads the response: until it sends nothing for a while, or too much. */
const silentMilliseconds = 5_000;
const closingMilliseconds = 30_000;

/** Ends a connection whose client sends nothing any more. @returns a function for its end */
function endIfSilent(socket: Socket, clock: Clock): () => void {
  const endsAt = clock.monotonicMilliseconds() + closingMilliseconds;
  let cancel = (): void => undefined;
  const arm = (): void => {
    const { bytesRead } = socket;
    cancel = clock.schedule(silentMilliseconds, () => {
      if (socket.bytesRead === bytesRead || clock.monotonicMilliseconds() >= endsAt) socket.destroy();
      else arm();
    });
  };
  arm();
  return () => {
    cancel();
  };
}

interface WholeResponse {
  status: number;
  body: string;
  /** @default application/json */
  type?: string;
}

/** Writes a whole response, without Node's parser, and closes the connection after it. */
export function endWith(stream: Duplex, { status, body, type = "application/json" }: WholeResponse): void {
  if (!stream.writable) {
    stream.destroy();
    return;
  }
  const headers = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}`,
    `Content-Type: ${type}`,
    "Cache-Control: no-store",
    "Connection: close",
    ...(status === 429 || status === 503 ? ["Retry-After: 1"] : []),
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

const statuses: Partial<Record<ErrorCode, number>> = {
  InvalidArgument: 400,
  Unauthorized: 401,
  Forbidden: 403,
  GrantInvalid: 403,
  NotFound: 404,
  Conflict: 409,
  SandboxNotReady: 409,
  TooManyRequests: 429,
  Timeout: 504,
  Unavailable: 503,
};

export function statusOf(code: ErrorCode): number {
  return statuses[code] ?? 500;
}

/** Resolves when a stream accepts more, or when it is closed. */
export function untilWritable(stream: Writable): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      stream.off("drain", done).off("close", done);
      resolve();
    };
    if (stream.closed || !stream.writableNeedDrain) done();
    else stream.on("drain", done).on("close", done);
  });
}

/** Whether a Unix socket accepts connections. */
export function socketAccepts(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path);
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => {
      resolve(false);
    });
  });
}
