import type { FastifyError } from "fastify";
import * as z from "zod";
import type { ErrorCode } from "../../../base/error-codes.ts";
import { RametError } from "../../../base/errors.ts";
import { statusOf } from "../../../base/http.ts";

/** The body of every error. `violations` only with `policy_violation`, of which the clients make an error of its own. */
export const ErrorBody = z
  .object({
    error: z.string(),
    violations: z.array(z.object({ code: z.string(), message: z.string() })).optional(),
  })
  .meta({ id: "Error" });
export type ErrorBody = z.infer<typeof ErrorBody>;

/** The statuses that AgentTier's clients expect, where they differ from those of other HTTP servers of Ramet. */
const statuses: Partial<Record<ErrorCode, number>> = {
  AlreadyExists: 409,
  BackendMissing: 503,
  Canceled: 499,
  CaptureRefused: 409,
  CheckpointNotReady: 409,
  CpuFeaturesMissing: 503,
  EngineMissing: 503,
  GuestUnreachable: 503,
  KeyUnavailable: 503,
  NotSupported: 501,
  OutOfRange: 413,
  QuotaExceeded: 403,
  SandboxUnreachable: 502,
  StoreFull: 503,
  StoreReadOnly: 503,
  StoreUnavailable: 503,
  TemplateMismatch: 400,
  TooManyRequests: 429,
  VolumeNotShareable: 409,
  VolumesFull: 503,
  VolumesNotCaptured: 409,
};

export interface ErrorAnswer {
  status: number;
  body: ErrorBody;
}

/** The answer to a failed request. */
export function errorAnswer(thrown: unknown): ErrorAnswer {
  const own = statusOfServer(thrown);
  const error = asRametError(thrown);
  const message = error.hint === undefined ? error.message : `${error.message}. ${error.hint}`;
  const status = own ?? statuses[error.code] ?? statusOf(error.code);
  if (error.code !== "QuotaExceeded") return { status, body: { error: message } };
  return { status, body: { error: "policy_violation", violations: [{ code: "quota_exceeded", message }] } };
}

/** The status of a request that the server could not read, such as 413. */
function statusOfServer(thrown: unknown): number | undefined {
  const { statusCode } = thrown as Partial<FastifyError>;
  return statusCode !== undefined && statusCode >= 400 && statusCode < 500 ? statusCode : undefined;
}

function asRametError(thrown: unknown): RametError {
  if (thrown instanceof z.ZodError)
    return new RametError("InvalidArgument", `invalid request: ${z.prettifyError(thrown)}`);
  if (statusOfServer(thrown) !== undefined)
    return new RametError("InvalidArgument", `The server cannot read the request: ${(thrown as Error).message}`);
  return RametError.from(thrown);
}
