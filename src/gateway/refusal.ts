import type { Duplex } from "node:stream";
import type { ErrorCode } from "../base/error-codes.ts";
import { RametError, type RametErrorOptions } from "../base/errors.ts";
import { endWith } from "../base/http.ts";
import type { Destination } from "./destination.ts";
import type { ClientRequest, ClientResponse } from "./exchange.ts";

export interface RefusalOptions extends RametErrorOptions {
  /** @default that of the code */
  status?: number;
  /** The body has only `code` and `message`, as errors of envd. */
  isShort?: boolean;
}

/** An error whose HTTP response is not what its code implies. */
export class Refusal extends RametError {
  readonly status: number | undefined;
  readonly isShort: boolean;

  constructor(code: ErrorCode, message: string, { status, isShort = false, ...options }: RefusalOptions = {}) {
    super(code, message, options);
    this.status = status;
    this.isShort = isShort;
  }
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
  TooManyRequests: 429,
  Unavailable: 503,
  Timeout: 504,
};

/**
 * Responds with an error as JSON: `{sandboxId, port, code, message, reason, hint, retryable}`, or to a gRPC client as a gRPC
 * status. `code` is the HTTP status, as E2B's clients expect it, and `reason` the stable word.
 * @returns the HTTP status, also for gRPC, which always has 200
 */
export function refuse(
  { request, response }: { request: Pick<ClientRequest, "stream" | "headers">; response: ClientResponse },
  thrown: unknown,
  destination: Destination | undefined,
  givenStatus?: number,
): number {
  const error = RametError.from(thrown);
  const status = givenStatus ?? statusOf(error);
  if (isGrpc(request)) {
    response.endWithHead(200, grpcStatus(error));
    return status;
  }
  const headers = ["content-type", "application/json", "cache-control", "no-store"];
  response.writeHead(status, status === 429 || status === 503 ? [...headers, "retry-after", "1"] : headers);
  response.body.end(bodyOf(error, status, destination));
  return status;
}

/** The same on a connection without a response object. The connection closes after it. */
export function refuseOn(stream: Duplex, error: RametError, status = statusOf(error)): void {
  endWith(stream, { status, body: bodyOf(error, status) });
}

function statusOf(error: RametError): number {
  return (error instanceof Refusal ? error.status : undefined) ?? statuses[error.code] ?? 500;
}

function bodyOf(error: RametError, status: number, destination?: Destination): string {
  const { code: reason, message, hint, retryable } = error;
  const isShort = error instanceof Refusal && error.isShort;
  const more = isShort ? {} : { reason, hint, retryable };
  return `${JSON.stringify({ ...(isShort ? {} : destination), code: status, message, ...more })}\n`;
}

/** Whether a request is one of gRPC over HTTP/2. gRPC-Web also works over HTTP/1.1, and is not. */
export function isGrpc({ stream, headers }: Pick<ClientRequest, "stream" | "headers">): boolean {
  return stream !== undefined && /^application\/grpc(?:$|[+;])/.test(headers["content-type"] ?? "");
}

/** The status codes of gRPC (grpc/grpc, doc/statuscodes.md). A client repeats what is UNAVAILABLE. */
const codes: Partial<Record<ErrorCode, number>> = {
  InvalidArgument: 3,
  Forbidden: 7,
  TooManyRequests: 8,
  NotFound: 14,
  SandboxNotReady: 14,
  SandboxUnreachable: 14,
  Unavailable: 14,
  Timeout: 14,
  Unauthorized: 16,
};
const internal = 13;

/** Returns the headers of a gRPC response that has only an error. */
export function grpcStatus(error: RametError): string[] {
  return [
    "content-type",
    "application/grpc",
    "grpc-status",
    String(codes[error.code] ?? internal),
    "grpc-message",
    percentEncoded(error.describe()),
  ];
}

/** As for header values of gRPC: printable ASCII but the percent sign is kept (grpc/grpc, doc/PROTOCOL-HTTP2.md). */
function percentEncoded(text: string): string {
  return [...Buffer.from(text)]
    .map((byte) =>
      byte >= 0x20 && byte <= 0x7e && byte !== 0x25
        ? String.fromCharCode(byte)
        : `%${byte.toString(16).toUpperCase().padStart(2, "0")}`,
    )
    .join("");
}
