import { RametError } from "../../base/errors.ts";
import type { SandboxClaim } from "../../api/kinds/sandbox-claim.ts";
import type { ResourceClient } from "../../kube/resource-client.ts";
import type { Io } from "../io.ts";
import { followWish } from "../wait/follow-request.ts";
import { describeState } from "../wait/outcome.ts";

/**
 * Waits until a claim is completed, which it is by itself when its own time is over.
 *
 * @throws RametError `Timeout` when nobody serves it, `Canceled`, `Conflict` when it was removed
 */
export async function untilCompleted(
  io: Io,
  claims: ResourceClient<SandboxClaim>,
  { claim, timeoutMilliseconds }: { claim: SandboxClaim; timeoutMilliseconds: number },
): Promise<SandboxClaim> {
  const { name } = claim.metadata;
  const last = await followWish(io, {
    ...{ resource: claims, from: claim, noun: "claim" },
    timeoutMilliseconds: timeoutMilliseconds + graceMilliseconds,
    isOver: ({ status }) => status?.phase === "Completed",
    describe: describeState,
  });
  if (last !== undefined) return last;
  throw new RametError("Conflict", `The claim ${name} was removed while it was waited for`);
}

/** The controller's clock decides when the claim's time is over, and then it tidies up. */
const graceMilliseconds = 10_000;
