import { RametError } from "../../../src/base/errors.ts";
import type { Sandbox } from "../../../src/api/kinds/sandbox.ts";
import { findCondition, isConditionTrue } from "../../../src/kube/conditions.ts";
import type { ResourceClient } from "../../../src/kube/resource-client.ts";
import { follow } from "../follow.ts";

export interface CloneWait {
  sandboxes: ResourceClient<Sandbox>;
  from: Sandbox;
  timeoutMilliseconds: number;
  log: (line: string) => void;
}

/**
 * Waits until a clone is ready, with its own identity. @throws RametError with the reason if it fails
 */
export async function waitUntilReady({ sandboxes, from, timeoutMilliseconds, log }: CloneWait): Promise<Sandbox> {
  const { name } = from.metadata;
  let last: string | undefined;
  const found = await follow({
    resource: sandboxes,
    from,
    what: `the sandbox ${name}`,
    until: (seen) => {
      const state = `${seen?.status?.phase ?? "waiting for the controller"}${reasonOf(seen)}`;
      if (state !== last) log(state);
      last = state;
      return seen === undefined || isReady(seen) || hasEnded(seen);
    },
    timeoutMilliseconds,
  });
  if (found !== undefined && isReady(found)) return found;
  if (found === undefined) throw new RametError("Conflict", `The sandbox ${name} was deleted before it was ready`);
  throw new RametError("SandboxNotReady", `The sandbox ${name} did not start${reasonOf(found)}`, {
    hint: `Run: ramet sandbox get ${name}`,
  });
}

/** Whether the sandbox will never become ready. */
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
