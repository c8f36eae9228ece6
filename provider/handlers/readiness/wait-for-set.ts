import type { SandboxSet } from "../../../src/api/kinds/sandbox-set.ts";
import { RametError } from "../../../src/base/errors.ts";
import { findCondition, isConditionTrue } from "../../../src/kube/conditions.ts";
import type { ResourceClient } from "../../../src/kube/resource-client.ts";
import { follow } from "../follow.ts";

export interface SetWait {
  sets: ResourceClient<SandboxSet>;
  /** The set as it was read after it was applied. */
  from: SandboxSet;
  timeoutMilliseconds: number;
  signal: AbortSignal;
  log: (line: string) => void;
}

/**
 * Waits until all sandboxes of a set are ready and of its current revision, and logs each change of the reason.
 * @throws RametError `SandboxNotReady` with the last failure if they do not start
 */
export async function waitForSet({ sets, from, timeoutMilliseconds, signal, log }: SetWait): Promise<void> {
  const { clock } = sets.client;
  const { name } = from.metadata;
  const started = clock.monotonicMilliseconds();
  const isSettled = (): boolean => clock.monotonicMilliseconds() - started >= settlingMilliseconds;
  const isOf = (set: SandboxSet): boolean => (set.status?.observedGeneration ?? 0) >= (from.metadata.generation ?? 0);
  let last: string | undefined;
  const found = await follow({
    resource: sets,
    from,
    what: `the set ${name}`,
    describe: stateOf,
    until: (seen) => {
      const state = seen !== undefined && isOf(seen) ? stateOf(seen) : "waiting for the controller";
      if (state !== last) log(state);
      last = state;
      if (seen === undefined) return true;
      return isOf(seen) && (isReady(seen) || (isFailing(seen) && isSettled()));
    },
    requeueAfterMilliseconds: settlingMilliseconds,
    timeoutMilliseconds,
    signal,
  });
  if (found === undefined) throw new RametError("Conflict", `The set ${name} was deleted before it was ready`);
  if (isReady(found)) return;
  throw new RametError("SandboxNotReady", `The sandboxes of the set ${name} do not start: ${stateOf(found)}`, {
    hint: "The controllers keep trying; correct the cause, then run pulumi up again",
  });
}

function isReady({ status }: SandboxSet): boolean {
  return isConditionTrue(status?.conditions, "Ready") && isConditionTrue(status?.conditions, "Updated");
}

function isFailing({ status }: SandboxSet): boolean {
  return findCondition(status?.conditions, "Ready")?.reason === "StartFailing";
}

function stateOf(set: SandboxSet | undefined): string {
  const wrong = (set?.status?.conditions ?? []).filter(({ status }) => status === "False");
  return wrong.length === 0 ? "ready" : wrong.map(({ message }) => message).join("; ");
}

/** The controllers may not have observed recent changes of the template yet, and report failures of the one before. */
const settlingMilliseconds = 20_000;
