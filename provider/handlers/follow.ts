import type { Sandbox } from "../../src/api/kinds/sandbox.ts";
import { fieldsIgnored } from "../../src/api/fields/ignored-condition.ts";
import type { Condition } from "../../src/api/schema/metadata.ts";
import { RametError } from "../../src/base/errors.ts";
import { findCondition, isConditionTrue } from "../../src/kube/conditions.ts";
import type { KubeObject } from "../../src/kube/object.ts";
import type { ResourceClient } from "../../src/kube/resource-client.ts";
import { type WaitOptions, waitUntil } from "../../src/kube/wait-until.ts";
import type { Values } from "./handler.ts";

export interface FollowOptions<T extends KubeObject> extends WaitOptions<T> {
  /** Names the object in the message of a timeout: `the snapshot a`. */
  what: string;
}

/**
 * Follows an object until a condition holds and returns its state at that time. Reconnects broken connections.
 * @throws RametError `Timeout`; `Unauthorized` or `Forbidden` if the credentials are no longer accepted
 */
export async function follow<T extends KubeObject>({ what, ...wait }: FollowOptions<T>): Promise<T | undefined> {
  try {
    return await waitUntil(wait);
  } catch (error) {
    const { code } = RametError.from(error);
    if (code === "Canceled") {
      const hint = "The operation continues in the cluster; run pulumi up again to wait for it";
      throw new RametError("Canceled", `Waiting for ${what} was canceled`, { hint, cause: error });
    }
    if (code !== "Timeout") throw error;
    const problem = `Waiting for ${what} timed out after ${wait.timeoutMilliseconds / 1000} s`;
    const hint = "The operation continues in the cluster; run pulumi up again to wait for it";
    throw new RametError("Timeout", problem, { hint, cause: error });
  }
}

/**
 * Thrown if an object was created but did not reach the requested state. Pulumi keeps it in the state with the reason,
 * and the next `pulumi up` continues with it.
 */
export class InitFailed extends Error {
  override readonly name = "InitFailed";
  readonly id: string;
  readonly properties: Values;
  readonly reasons: string[];

  constructor(id: string, properties: Values, error: RametError) {
    super(error.describe(), { cause: error });
    this.id = id;
    this.properties = properties;
    this.reasons = [error.describe()];
  }
}

interface CloneWait {
  sandboxes: ResourceClient<Sandbox>;
  from: Sandbox;
  timeoutMilliseconds: number;
  log: (line: string) => void;
  signal: AbortSignal;
}

/**
 * Waits until a clone is ready, with its own identity. @throws RametError with the reason if it fails
 */
export async function waitUntilReady({
  sandboxes,
  from,
  timeoutMilliseconds,
  log,
  signal,
}: CloneWait): Promise<Sandbox> {
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
    signal,
  });
  if (found !== undefined && isReady(found)) {
    logIgnored(found, log);
    return found;
  }
  if (found === undefined) throw new RametError("Conflict", `The sandbox ${name} was deleted before it was ready`);
  throw new RametError("SandboxNotReady", `The sandbox ${name} did not start${reasonOf(found)}`, {
    hint: `Run: ramet sandbox get ${name}`,
  });
}

/** Logs the fields of an object without effect, which the controllers have named. */
export function logIgnored(
  { status }: { status?: { conditions?: Condition[] | undefined } | undefined },
  log: (line: string) => void,
): void {
  const ignored = findCondition(status?.conditions, fieldsIgnored);
  if (ignored?.status === "True") log(`Warning: ${ignored.message}`);
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
