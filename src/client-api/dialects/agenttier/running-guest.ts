import type { Sandbox } from "../../../api/kinds/sandbox.ts";
import { RametError } from "../../../base/errors.ts";
import { containerUser, type GuestClient } from "../../../cell/client/guest-client.ts";
import { servingStates, verifiedState } from "../../service/lifecycle.ts";
import type { AgentTierOptions } from "./call.ts";

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
