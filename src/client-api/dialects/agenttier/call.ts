import * as z from "zod";
import type { Sandbox } from "../../../api/kinds/sandbox.ts";
import { RametError } from "../../../base/errors.ts";
import { type GuestClient, containerUser } from "../../../cell/client/guest-client.ts";
import type { Callers } from "../../keys/callers.ts";
import { type Call, type Route, routesFor } from "../../routes/route.ts";
import { errorStatus, messageWithHint, requestError } from "../../routes/serve-routes.ts";
import { findSandboxByName } from "../../service/find-sandbox.ts";
import type { Guests } from "../../service/guests.ts";
import { servingStates, verifiedState } from "../../service/lifecycle.ts";
import type { ServiceParts } from "../../service/parts.ts";

export type { Call };
export type AgentTierRoute = Route<AgentTier>;

/** Makes a route of the dialect. */
export const route = routesFor<AgentTier>();

/** The objects that the routes of the dialect share. */
export interface AgentTier {
  service: ServiceParts;
  callers: Callers;
  guests: Guests;
  /** The longest life that a client can request at a time. */
  maxLifeSeconds: number;
}

/** The part of a call that names its sandbox. */
export type SandboxCall = Pick<Call, "params" | "caller" | "signal">;

/** @throws RametError `NotFound`, also for sandboxes of others */
export function sandboxOf(
  { service }: Pick<AgentTier, "service">,
  { params: { id = "" }, caller, signal }: SandboxCall,
): Promise<Sandbox> {
  return findSandboxByName(service, caller.namespace, id, signal);
}

/** A client of the guest of the request's sandbox. @throws RametError `NotFound`; `Conflict` if it is not running */
export async function guestFor(agentTier: AgentTier, call: SandboxCall): Promise<GuestClient> {
  const sandbox = await sandboxOf(agentTier, call);
  const state = await verifiedState(agentTier.service, sandbox, call.signal, servingStates);
  if (servingStates.includes(state)) return agentTier.guests.guest(sandbox, containerUser);
  const { name } = sandbox.metadata;
  throw new RametError("Conflict", `The sandbox ${name} is not running: it is ${state}`);
}

/** The body of every error. `violations` only with `policy_violation`, of which the clients make an error of its own. */
export const ErrorBody = z
  .object({
    error: z.string(),
    violations: z.array(z.object({ code: z.string(), message: z.string() })).optional(),
  })
  .meta({ id: "Error" });

/** The answer to a failed request. One that the server could not read keeps its status. */
export function errorAnswer(thrown: unknown): { status: number; body: z.infer<typeof ErrorBody> } {
  const error = requestError(thrown, "invalid request");
  const message = messageWithHint(error);
  const status = errorStatus(thrown, error);
  if (error.code !== "QuotaExceeded") return { status, body: { error: message } };
  return { status, body: { error: "policy_violation", violations: [{ code: "quota_exceeded", message }] } };
}
