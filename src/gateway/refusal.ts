import type { Duplex } from "node:stream";
import type { ErrorCode } from "../base/error-codes.ts";
import { RametError, type RametErrorOptions } from "../base/errors.ts";
import { endWith } from "./connections.ts";
import type { Destination } from "./destination.ts";
import type { ClientRequest, ClientResponse } from "./exchange.ts";
import { grpcStatus, isGrpc } from "./grpc.ts";

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
  response.writeHead(status, status === 503 ? [...headers, "retry-after", "1"] : headers);
  response.body.end(bodyOf(error, status, destination));
  return status;
}

/** The same on a connection without a response object. The connection closes after it. */
export function refuseOn(stream: Duplex, error: RametError, status = statusOf(error)): void {
  endWith(stream, status, bodyOf(error, status));
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
