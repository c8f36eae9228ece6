import { defined } from "../../../base/defined.ts";
import type { ErrorCode } from "../../../base/error-codes.ts";
import { statusOf } from "../../../base/http.ts";
import { messageWithHint, requestError } from "../../routes/serve-routes.ts";
import type { ErrorBody } from "./answers.ts";

/** The statuses that E2B's clients expect, where they differ from those of other HTTP servers of Ramet. */
const statuses: Partial<Record<ErrorCode, number>> = {
  AlreadyExists: 409,
  CheckpointNotReady: 409,
  TemplateMismatch: 400,
  QuotaExceeded: 429,
  TooManyRequests: 429,
  NotSupported: 501,
  Canceled: 499,
  SandboxNotReady: 500,
};

/** The error codes of E2B. (Source: the OpenAPI document of e2b-dev/E2B.) */
const codes: Partial<Record<ErrorCode, string>> = {
  Timeout: "sandbox_placement_timeout",
  CpuFeaturesMissing: "sandbox_no_compatible_node",
  EngineMissing: "sandbox_no_compatible_node",
  SandboxNotReady: "sandbox_create_failed",
};

/** The answer to a failed request. Its `code` must be the status: the JavaScript SDK decides by it. */
export function errorAnswer(thrown: unknown): { status: number; body: ErrorBody } {
  const error = requestError(thrown, "The request is not valid");
  const status = statuses[error.code] ?? statusOf(error.code);
  return { status, body: defined({ code: status, message: messageWithHint(error), error_code: codes[error.code] }) };
}
