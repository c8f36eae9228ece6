import { RametError } from "../../../src/base/errors.ts";
import type { Sandbox } from "../../../src/api/kinds/sandbox.ts";
import { findCondition, isConditionTrue } from "../../../src/kube/conditions.ts";
import type { ResourceClient } from "../../../src/kube/resource-client.ts";
import { follow } from "../follow.ts";

export interface CloneWait {
  sandboxes: ResourceClient<Sandbox>;
  from: Sandbox;
  timeoutMilliseconds: number;
  say: (line: string) => void;
}

/**
 * Waits until a clone answers under its own identity.
 * @throws RametError saying why it cannot
 */
export async function waitUntilReady({ sandboxes, from, timeoutMilliseconds, say }: CloneWait): Promise<Sandbox> {
  const { name } = from.metadata;
  let last: string | undefined;
  const found = await follow({
    resource: sandboxes,
    from,
    what: `the sandbox ${name}`,
    until: (seen) => {
      const state = `${seen?.status?.phase ?? "waiting for the controller"}${reasonOf(seen)}`;
      if (state !== last) say(state);
      last = state;
      return seen === undefined || isReady(seen) || hasEnded(seen);
    },
    timeoutMilliseconds,
  });
  if (found !== undefined && isReady(found)) return found;
  if (found === undefined) throw new RametError("Conflict", `The sandbox ${name} was removed while it was waited for`);
  throw new RametError("SandboxNotReady", `The sandbox ${name} did not start${reasonOf(found)}`, {
    hint: `See: ramet sandbox get ${name}`,
  });
}

/** Whether there will never be an answer from it. */
export function hasEnded({ metadata, status }: Sandbox): boolean {
  return metadata.deletionTimestamp !== undefined || status?.phase === "Failed" || status?.phase === "Succeeded";
}

function isReady({ status }: Sandbox): boolean {
  return status?.phase === "Running" && isConditionTrue(status.conditions, "Ready");
}

function reasonOf(sandbox: Sandbox | undefined): string {
  const { message, conditions } = sandbox?.status ?? {};
  const ready = findCondition(conditions, "Ready");
  const why = message ?? (ready?.status === "False" ? ready.message : undefined);
  return why === undefined || why === "" ? "" : `: ${why}`;
}
