import type { ServerResponse } from "node:http";
import type { ErrorCode } from "../base/error-codes.ts";
import { RametError } from "../base/errors.ts";
import type { Destination } from "./destination.ts";

/**
 * By HTTP's words. What E2B's clients ask by 502 is whether a sandbox can be reached, so that 404 stays the program's own answer
 * (its edge's contract).
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

/** Answers with an error as JSON: `{sandboxId, port, code, message, hint, retryable}`. @returns the status */
export function refuse(response: ServerResponse, error: unknown, destination: Destination | undefined): number {
  const { code, message, hint, retryable } = RametError.from(error);
  const status = statuses[code] ?? 500;
  const body = JSON.stringify({ ...destination, code, message, hint, retryable });
  response.writeHead(status, { "content-type": "application/json", "cache-control": "no-store" }).end(`${body}\n`);
  return status;
}
