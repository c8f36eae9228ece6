import * as z from "zod";
import type { Sandbox } from "../../../api/kinds/sandbox.ts";
import type { ErrorCode } from "../../../base/error-codes.ts";
import { defined } from "../../../base/defined.ts";
import { RametError } from "../../../base/errors.ts";
import { statusOf } from "../../../base/http.ts";
import type { Slots } from "../../../base/slots.ts";
import { containerUser, type GuestClient } from "../../../cell/client/guest-client.ts";
import type { Callers } from "../../keys/callers.ts";
import { needs } from "../../keys/needs.ts";
import { type Call, type Route, routesFor } from "../../routes/route.ts";
import { requestError, unreadableStatus } from "../../routes/serve-routes.ts";
import type { ClientSecrets } from "../../service/client-secrets.ts";
import { findSandbox, sandboxIdOf } from "../../service/find-sandbox.ts";
import type { Guests } from "../../service/guests.ts";
import { hasFailedPause, servingStates, verifiedState } from "../../service/lifecycle.ts";
import type { ServiceParts } from "../../service/parts.ts";

export type { Call };
export type Sandbox0Route = Route<Sandbox0>;

/** Makes a route of the dialect. */
export const route = routesFor<Sandbox0>();

/** The objects that the routes of the dialect share. */
export interface Sandbox0 {
  service: ServiceParts;
  callers: Callers;
  guests: Guests;
  secrets: Pick<ClientSecrets, "requestSeal">;
  /** The watches of each key. */
  watches: Slots;
  /** The longest life that a client can request at a time. */
  maxLifeSeconds: number;
  /** The domain below which sandboxes have their host names. @default services have no address */
  domain?: string | undefined;
}

/** All routes are below it. AgentTier has routes of the same paths. */
export const prefix = "/sandbox0";
/** The same routes for the clients before 0.10, which expect another status of a deletion. */
export const olderPrefix = `${prefix}/0.9`;

/** Below the time after which proxies give up a request. */
export const timeoutMilliseconds = 55_000;

/** The part of a call that names its sandbox. */
export type SandboxCall = Pick<Call, "params" | "caller" | "signal">;

/** @throws RametError `NotFound`, also for sandboxes of others */
export function sandboxOf(
  { service }: Pick<Sandbox0, "service">,
  { params: { id = "" }, caller, signal }: SandboxCall,
): Promise<Sandbox> {
  return findSandbox(service, caller.namespace, id, signal);
}

/** A client of the guest of the request's sandbox. @throws RametError `NotFound`; `Conflict` if it is not running */
export async function guestFor(sandbox0: Sandbox0, call: SandboxCall): Promise<GuestClient> {
  const sandbox = await sandboxOf(sandbox0, call);
  const state = await verifiedState(sandbox0.service, sandbox, call.signal, servingStates);
  if (servingStates.includes(state) || hasFailedPause(sandbox0.service, sandbox))
    return sandbox0.guests.guest(sandbox, containerUser);
  throw new RametError("Conflict", `The sandbox ${sandboxIdOf(sandbox)} is ${state}`, {
    hint: state === "paused" ? "Resume it first" : "Wait until it is running",
  });
}

/** The route of a WebSocket of a sandbox, for requests that do not open one. */
export function socketRoute(path: `/${string}`, summary: string): Sandbox0Route {
  return route("GET", path, {
    summary,
    needs: needs.enter,
    answers: { 101: null },
    handle: async (sandbox0, call) => {
      await sandboxOf(sandbox0, call);
      throw new RametError("InvalidArgument", "This path needs a WebSocket", {
        hint: "Send the header upgrade: websocket",
      });
    },
  });
}

/** The body of every answer but files. */
export function envelope<T extends z.ZodType>(data: T) {
  return z.object({ success: z.literal(true), data });
}

export function success<T>(data: T): { success: true; data: T } {
  return { success: true, data };
}

export const ErrorBody = z
  .object({
    success: z.literal(false),
    error: z.object({
      code: z.string(),
      message: z.string(),
      details: z.object({ reason: z.string().describe("The error code of Ramet."), hint: z.string().optional() }),
    }),
  })
  .meta({ id: "ErrorEnvelope" });

/** The statuses that Sandbox0's clients expect, where they differ from those of other HTTP servers of Ramet. */
const statuses: Partial<Record<ErrorCode, number>> = {
  AlreadyExists: 409,
  BackendMissing: 503,
  Canceled: 499,
  CaptureRefused: 409,
  CheckpointNotReady: 409,
  CpuFeaturesMissing: 503,
  EngineMissing: 503,
  GuestUnreachable: 503,
  NotSupported: 501,
  OutOfRange: 413,
  QuotaExceeded: 429,
  StoreFull: 503,
  StoreReadOnly: 503,
  StoreUnavailable: 503,
  TemplateMismatch: 400,
  Timeout: 503,
  VolumesNotCaptured: 409,
};

/** The codes of Sandbox0. (Source: pkg/gateway/spec/response.go of sandbox0-ai/sandbox0 at b1f245c2.) */
const codes: Readonly<Record<number, string>> = {
  400: "bad_request",
  401: "unauthorized",
  403: "forbidden",
  404: "not_found",
  409: "conflict",
  413: "bad_request",
  415: "bad_request",
  429: "quota_exceeded",
  501: "not_supported",
  503: "unavailable",
};

/** The answer to a failed request. One that the server could not read keeps its status. */
export function errorAnswer(thrown: unknown): { status: number; body: z.infer<typeof ErrorBody> } {
  const { code: reason, message, hint } = requestError(thrown, "The request is not valid");
  const status = unreadableStatus(thrown) ?? statuses[reason] ?? statusOf(reason);
  const code = codes[status] ?? (status < 500 ? "bad_request" : "internal_error");
  return { status, body: { success: false, error: { code, message, details: defined({ reason, hint }) } } };
}
