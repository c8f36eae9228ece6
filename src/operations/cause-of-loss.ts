import type { Sandbox } from "../api/kinds/sandbox.ts";
import { hasExited } from "../api/state/sandbox.ts";
import { RametError } from "../base/errors.ts";
import { describeState, failureOf } from "../kube/conditions.ts";
import type { Watched } from "./objects.ts";

/**
 * Why a call to a sandbox was lost: the connections of a sandbox that ends, for example out of memory, only break. Its status, which
 * follows within seconds, has the cause.
 * @returns the error of the call if the sandbox has not ended, or ended for another call
 */
export async function causeOfLoss(
  { sandboxes }: { sandboxes: Watched<Sandbox> },
  sandbox: Sandbox,
  thrown: unknown,
  signal: AbortSignal,
): Promise<RametError> {
  const error = RametError.from(thrown);
  if (error.code !== "GuestUnreachable") return error;
  const { name } = sandbox.metadata;
  const ended = sandboxes.follow(sandbox, {
    what: `the sandbox ${name}`,
    until: (current) => {
      if (current === undefined) return error;
      return hasExited(current) ? failureOf(`The sandbox ${name} has ended`, current, "SandboxLost") : undefined;
    },
    describe: describeState,
    timeoutMilliseconds: statusMilliseconds,
    signal,
  });
  return ended.catch(() => error);
}

/** A kubelet reports the end of a container within about two seconds. */
const statusMilliseconds = 5_000;
