import * as z from "zod";
import type { ErrorCode } from "../../../base/error-codes.ts";
import { statusOf } from "../../../base/http.ts";
import { messageWithHint, requestError, unreadableStatus } from "../../routes/serve-routes.ts";

/** The body of every error. `violations` only with `policy_violation`, of which the clients make an error of its own. */
export const ErrorBody = z
  .object({
    error: z.string(),
    violations: z.array(z.object({ code: z.string(), message: z.string() })).optional(),
  })
  .meta({ id: "Error" });

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

/** The answer to a failed request. One that the server could not read keeps its status. */
export function errorAnswer(thrown: unknown): { status: number; body: z.infer<typeof ErrorBody> } {
  const error = requestError(thrown, "invalid request");
  const message = messageWithHint(error);
  const status = unreadableStatus(thrown) ?? statuses[error.code] ?? statusOf(error.code);
  if (error.code !== "QuotaExceeded") return { status, body: { error: message } };
  return { status, body: { error: "policy_violation", violations: [{ code: "quota_exceeded", message }] } };
}
