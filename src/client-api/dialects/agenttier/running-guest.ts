import type { Sandbox } from "../../../api/kinds/sandbox.ts";
import { RametError } from "../../../base/errors.ts";
import { containerUser, type GuestClient } from "../../../cell/client/guest-client.ts";
import { currentState } from "../../service/lifecycle.ts";
import type { AgentTierOptions } from "./call.ts";

/** A client of the guest of a running sandbox. @throws RametError `Conflict` if it is not running */
export function runningGuest(
  { service, guestOf }: Pick<AgentTierOptions, "service" | "guestOf">,
  sandbox: Sandbox,
): Promise<GuestClient> {
  const state = currentState(service, sandbox);
  if (state === "running" || state === "snapshotting") return guestOf(sandbox, containerUser);
  const { name } = sandbox.metadata;
  throw new RametError("Conflict", `The sandbox ${name} is not running: it is ${state}`);
}
