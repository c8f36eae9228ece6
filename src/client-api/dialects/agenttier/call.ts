import type { Sandbox } from "../../../api/kinds/sandbox.ts";
import { type GuestClient, containerUser } from "../../../cell/client/guest-client.ts";
import type { Callers, RequestRates } from "../../keys/callers.ts";
import { type Call, type Route, routesFor } from "../../routes/route.ts";
import type { GuestOf, RequestPort } from "../../service/guest-access.ts";
import type { ServiceParts } from "../../service/parts.ts";
import { RametError } from "../../../base/errors.ts";
import { servingStates, verifiedState } from "../../service/lifecycle.ts";

export type { Call };
export type AgentTierRoute = Route<AgentTier>;

/** Makes a route of the dialect. */
export const route = routesFor<AgentTier>();

export interface AgentTierOptions {
  service: ServiceParts;
  callers: Callers;
  rates: RequestRates;
  guestOf: GuestOf;
  requestPort: RequestPort;
  /** The longest life that a client can request at a time. */
  maxLifeSeconds: number;
}

/** The objects that the routes of the dialect share. */
export interface AgentTier extends AgentTierOptions {
  /** @throws RametError `NotFound`, also for sandboxes of others */
  sandboxOf: (call: Pick<Call, "request" | "caller" | "signal">) => Promise<Sandbox>;
  /** A client of the guest of the request's sandbox. @throws RametError `NotFound`; `Conflict` if it is not running */
  guestFor: (call: Pick<Call, "request" | "caller" | "signal">) => Promise<GuestClient>;
}

/** A client of the guest of a running sandbox. @throws RametError `Conflict` if it is not running */
export async function runningGuest(
  { service, guestOf }: Pick<AgentTierOptions, "service" | "guestOf">,
  sandbox: Sandbox,
  signal: AbortSignal,
): Promise<GuestClient> {
  const state = await verifiedState(service, sandbox, signal, servingStates);
  if (servingStates.includes(state)) return guestOf(sandbox, containerUser);
  const { name } = sandbox.metadata;
  throw new RametError("Conflict", `The sandbox ${name} is not running: it is ${state}`);
}
