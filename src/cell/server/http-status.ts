import type { ErrorCode } from "../../base/error-codes.ts";

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
