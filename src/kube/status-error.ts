import * as z from "zod";
import { jsonValue } from "../base/canonical-json.ts";
import type { ErrorCode } from "../base/error-codes.ts";
import { defined } from "../base/defined.ts";
import { RametError } from "../base/errors.ts";

/** The API server's response to a request that it rejected. It is the `cause` of the error that is thrown. */
export interface ApiStatus {
  httpStatus: number;
  /** The `reason` of Kubernetes' Status, such as `Expired` or `AlreadyExists`; empty without one. */
  reason: string;
  message: string;
  retryAfterMilliseconds?: number;
}

/** The fields of Kubernetes' `Status` object that Ramet reads. */
const StatusBody = z.looseObject({
  kind: z.literal("Status").optional(),
  message: z.string().optional(),
  reason: z.string().optional(),
  code: z.number().optional(),
  details: z.looseObject({ retryAfterSeconds: z.number().optional() }).nullish(),
});

/**
 * Reads the body of an error response.
 *
 * @param retryAfter the `Retry-After` header, in seconds (the API server never sends a date)
 */
export function readStatus(httpStatus: number, body: string, retryAfter?: string): ApiStatus {
  return statusOfBody(httpStatus, jsonValue(body), body, retryAfter);
}

export function readStatusEvent(object: unknown): ApiStatus {
  return statusOfBody(500, object, JSON.stringify(object));
}

function statusOfBody(httpStatus: number, body: unknown, text: string, retryAfter?: string): ApiStatus {
  const status = StatusBody.safeParse(body).data ?? { message: text.trim().slice(0, 300) };
  const seconds = Number(retryAfter ?? status.details?.retryAfterSeconds);
  return {
    httpStatus: status.code ?? httpStatus,
    reason: status.reason ?? "",
    message: status.message ?? "",
    ...(Number.isFinite(seconds) && seconds >= 0 ? { retryAfterMilliseconds: seconds * 1000 } : {}),
  };
}

/** The error for a rejected request. `what` names the request, such as `get pods team-a/a`. */
export function statusError(what: string, status: ApiStatus): RametError {
  const { code, retryable, hint } = meaningOf(status);
  const why = status.message === "" ? `the API server responded with status ${status.httpStatus}` : status.message;
  return new RametError(code, `${what} failed: ${why}`, {
    retryable,
    cause: new ApiStatusError(status),
    ...defined({ hint }),
  });
}

/** Returns the API server's response that caused `error`, if there was one. */
export function apiStatusOf(error: unknown): ApiStatus | undefined {
  return error instanceof RametError && error.cause instanceof ApiStatusError ? error.cause.status : undefined;
}

/** Whether a resource version or a list's continue token is too old: only a new list helps. */
export function isExpired(error: unknown): boolean {
  const status = apiStatusOf(error);
  return status !== undefined && (status.httpStatus === 410 || status.reason === "Expired" || status.reason === "Gone");
}

class ApiStatusError extends Error {
  override readonly name = "ApiStatusError";
  readonly status: ApiStatus;

  constructor(status: ApiStatus) {
    super(`${status.httpStatus} ${status.reason}: ${status.message}`);
    this.status = status;
  }
}

interface Meaning {
  code: ErrorCode;
  retryable: boolean;
  hint?: string;
}

function meaningOf({ httpStatus, reason, message }: ApiStatus): Meaning {
  if (httpStatus === 409) return { code: reason === "AlreadyExists" ? "AlreadyExists" : "Conflict", retryable: false };
  // For a field that the schema does not have, server-side apply answers 500.
  if (httpStatus === 500 && message.startsWith("failed to create typed patch object")) {
    return { code: "InvalidArgument", retryable: false, hint: "Correct the field that the message names" };
  }
  if (httpStatus === 429 || httpStatus >= 500) {
    return { code: httpStatus === 504 ? "Timeout" : "Unavailable", retryable: true };
  }
  if (httpStatus === 403) return { code: "Forbidden", retryable: false, ...forbiddenHint(message) };
  return meanings.get(httpStatus) ?? { code: "Internal", retryable: false };
}

/** RBAC, Pod Security, quotas and admission policies all answer 403. Those not here say themselves what to do. */
function forbiddenHint(message: string): Pick<Meaning, "hint"> {
  if (message.includes("violates PodSecurity")) {
    return {
      hint: "Let an administrator label the namespace with pod-security.kubernetes.io/enforce=privileged: a cell needs it, and Ramet's admission policies restrict the templates of sandboxes instead",
    };
  }
  return / cannot \w+ /.test(message) ? { hint: "Grant this verb on this resource with a Role or ClusterRole" } : {};
}

const meanings: ReadonlyMap<number, Meaning> = new Map([
  [400, { code: "InvalidArgument", retryable: false }],
  [
    401,
    { code: "Unauthorized", retryable: false, hint: "Check the credentials in the kubeconfig: they may have expired" },
  ],
  [404, { code: "NotFound", retryable: false }],
  [405, { code: "InvalidArgument", retryable: false }],
  [408, { code: "Timeout", retryable: true }],
  [410, { code: "Unavailable", retryable: true }],
  [413, { code: "InvalidArgument", retryable: false }],
  [415, { code: "InvalidArgument", retryable: false }],
  [422, { code: "InvalidArgument", retryable: false }],
]);
