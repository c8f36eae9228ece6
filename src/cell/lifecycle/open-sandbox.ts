import type { CellState, Identity } from "../../api/wire/cell-api.ts";
import { RametError } from "../../base/errors.ts";
import type { PhaseClock } from "../../base/phases.ts";
import type { GuestControl } from "../client/guest-control.ts";
import { untilGuestAnswers } from "../sandbox/handover.ts";
import type { CellCore } from "./cell-core.ts";

/** How long a replaced sandbox stays before it is removed, so that the new one has the CPU for its first responses. */
const removeReplacedMilliseconds = 200;

export interface OpenSandboxOptions {
  identity: Identity;
  clone: boolean;
  /** How many identities the guest's memory had before. Undefined if unknown. */
  before: number | undefined;
}

/** The step between start or restore and traffic: gives the guest its identity, then opens ingress and egress. */
export async function openSandbox(
  core: CellCore,
  { identity, clone, before }: OpenSandboxOptions,
  phases: PhaseClock,
): Promise<CellState> {
  const { environment, states, clock } = core;
  const guest = environment.guest();
  const { ended } = environment.sandbox;
  core.identity.reset(before);
  // Before the entrypoint starts, which gets the variables of the trust store.
  await untilGuestAnswers(() => core.credentials.trustedBy(guest), { ended, clock });
  const generation = await core.identity.give(guest, identity, {
    clone,
    via: (what, call) => phases.phase(what, () => untilGuestAnswers(call, { ended, clock })),
  });
  await phases.phase("gate", async () => {
    await environment.limitCpu();
    await environment.network.setGate(true);
  });
  void followEntrypoint(core, guest);
  clock.schedule(removeReplacedMilliseconds, () => {
    removeReplaced(core);
  });
  // The answer has the engine, which was determined while the sandbox started. The next checkpoint needs it too.
  await core.engineBuild().catch(() => undefined);
  return states.set({ phase: "running", ready: true, generation });
}

/** When the entrypoint exits, the sandbox stops with its exit code, as a container does. */
async function followEntrypoint(core: CellCore, guest: GuestControl): Promise<void> {
  const { sandbox } = core.environment;
  const exit = await guest.untilExit(sandbox.ended);
  if (exit === undefined || sandbox.destroyed) return;
  const exceeded = sandbox.exceededLimit();
  if (exceeded === undefined) core.onEntrypointExit(exit);
  else core.fail(exceeded);
}

function removeReplaced({ environment, report }: CellCore): void {
  environment.removeReplaced().catch((error: unknown) => {
    report("removing the replaced sandbox failed", { message: RametError.from(error).message });
  });
}
