import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import type { AddressInfo, Server } from "node:net";
import type { Clock } from "./clock.ts";
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
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > limitBytes) throw new RametError(tooLarge, `${what} is larger than ${limitBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

export interface AnswerLimits {
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

const statuses: Partial<Record<ErrorCode, number>> = {
  InvalidArgument: 400,
  Unauthorized: 401,
  Forbidden: 403,
  GrantInvalid: 403,
  NotFound: 404,
  Conflict: 409,
  SandboxNotReady: 409,
  Timeout: 504,
  Unavailable: 503,
};

/** Returns the HTTP status of an error code. */
export function statusOf(code: ErrorCode): number {
  return statuses[code] ?? 500;
}
