import type { Duplex } from "node:stream";
import type { ErrorCode } from "../base/error-codes.ts";
import { RametError } from "../base/errors.ts";
import { endWith } from "./connections.ts";
import type { Destination } from "./destination.ts";
import type { ClientRequest, ClientResponse } from "./exchange.ts";
import { grpcStatus, isGrpc } from "./grpc.ts";

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
 * Responds with an error as JSON: `{sandboxId, port, code, message, hint, retryable}`, or to a gRPC client as a gRPC status.
 * @returns the HTTP status, also for gRPC, which always has 200
 */
export function refuse(
  { request, response }: { request: Pick<ClientRequest, "stream" | "headers">; response: ClientResponse },
  thrown: unknown,
  destination: Destination | undefined,
  givenStatus?: number,
): number {
  const error = RametError.from(thrown);
  const { code, message, hint, retryable } = error;
  const status = givenStatus ?? statuses[code] ?? 500;
  if (isGrpc(request)) {
    response.endWithHead(200, grpcStatus(error));
    return status;
  }
  const body = JSON.stringify({ ...destination, code, message, hint, retryable });
  const headers = ["content-type", "application/json", "cache-control", "no-store"];
  response.writeHead(status, status === 503 ? [...headers, "retry-after", "1"] : headers);
  response.body.end(`${body}\n`);
  return status;
}

/** The same on a connection without a response object. The connection closes after it. */
export function refuseOn(
  stream: Duplex,
  { code, message, hint, retryable }: RametError,
  status = statuses[code] ?? 500,
): void {
  endWith(stream, status, `${JSON.stringify({ code, message, hint, retryable })}\n`);
}
