import type { Sandbox } from "../../../api/kinds/sandbox.ts";
import { envdVersion } from "../../../cell/client/guest-wire.ts";
import type { Caller, Callers } from "../../keys/callers.ts";
import { type Call, type Route, routesFor } from "../../routes/route.ts";
import type { ClientSecrets } from "../../service/client-secrets.ts";
import { findSandbox, sandboxIdOf } from "../../service/find-sandbox.ts";
import type { Guests } from "../../service/guests.ts";
import type { ServiceParts } from "../../service/parts.ts";
import type { SandboxAccess } from "./answers.ts";
import { clientId, templateIdOf } from "./sandbox-view.ts";

export type { Call };
export type E2bRoute = Route<E2b>;

/** Makes a route of the dialect. */
export const route = routesFor<E2b>();

/** The objects that the routes of the dialect share. */
export interface E2b {
  service: ServiceParts;
  callers: Callers;
  guests: Guests;
  secrets: ClientSecrets;
  /** The domain below which sandboxes have their host names. @default the client's own setting */
  domain?: string | undefined;
  /** The longest life that a client can request at a time. */
  maxLifeSeconds: number;
}

/** @throws RametError `NotFound`, also for sandboxes of others */
export function sandboxOf(
  { service }: E2b,
  { params: { sandboxID = "" }, caller, signal }: Pick<Call, "params" | "caller" | "signal">,
): Promise<Sandbox> {
  return findSandbox(service, caller.namespace, sandboxID, signal);
}

/** Returns how the caller reaches a sandbox, with tokens that its key ends. */
export async function accessTo({ guests, domain }: E2b, sandbox: Sandbox, caller: Caller): Promise<SandboxAccess> {
  const { enter, traffic } = await guests.clientTokens(sandbox, caller);
  return {
    templateID: templateIdOf(sandbox),
    sandboxID: sandboxIdOf(sandbox),
    clientID: clientId,
    envdVersion,
    envdAccessToken: enter,
    trafficAccessToken: traffic,
    domain: domain ?? null,
  };
}
