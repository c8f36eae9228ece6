import type { Sandbox } from "../../../api/kinds/sandbox.ts";
import { RametError } from "../../../base/errors.ts";
import { type GuestClient, containerUser } from "../../../cell/client/guest-client.ts";
import type { Callers } from "../../keys/callers.ts";
import { type Call, type Route, routesFor } from "../../routes/route.ts";
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
