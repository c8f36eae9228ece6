import type { FastifyError } from "fastify";
import * as z from "zod";
import { defined } from "../../../base/defined.ts";
import type { ErrorCode } from "../../../base/error-codes.ts";
import { RametError } from "../../../base/errors.ts";
import { statusOf } from "../../../base/http.ts";
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

export interface ErrorAnswer {
  status: number;
  body: ErrorBody;
}

/** The answer to a failed request. Its `code` must be the status: the JavaScript SDK decides by it. */
export function errorAnswer(thrown: unknown): ErrorAnswer {
  const error = asRametError(thrown);
  const status = statuses[error.code] ?? statusOf(error.code);
  const code = codes[error.code];
  const message = error.hint === undefined ? error.message : `${error.message}. ${error.hint}`;
  return { status, body: defined({ code: status, message, error_code: code }) };
}

function asRametError(thrown: unknown): RametError {
  if (thrown instanceof z.ZodError)
    return new RametError("InvalidArgument", `The request is not valid: ${z.prettifyError(thrown)}`);
  const { statusCode, message } = thrown as Partial<FastifyError>;
  if (statusCode !== undefined && statusCode >= 400 && statusCode < 500 && message !== undefined)
    return new RametError("InvalidArgument", `The server cannot read the request: ${message}`);
  return RametError.from(thrown);
}
