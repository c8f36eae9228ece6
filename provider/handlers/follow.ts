import type { Sandbox } from "../../src/api/kinds/sandbox.ts";
import { fieldsIgnored } from "../../src/api/fields/ignored-condition.ts";
import type { Condition } from "../../src/api/schema/metadata.ts";
import { RametError } from "../../src/base/errors.ts";
import { visible } from "../../src/base/visible.ts";
import { findCondition, isConditionTrue } from "../../src/kube/conditions.ts";
import type { KubeObject } from "../../src/kube/object.ts";
import type { ResourceClient } from "../../src/kube/resource-client.ts";
import { type WaitOptions, waitUntil } from "../../src/kube/wait-until.ts";
import type { Values } from "./handler.ts";

export interface FollowOptions<T extends KubeObject> extends WaitOptions<T> {
  /** Names the object in the message of a timeout: `the snapshot a`. */
  what: string;
  /** The state in a few words, for the message of a timeout. */
  describe?: (object: T | undefined) => string;
}

/**
 * Follows an object until a condition holds and returns its state at that time. Reconnects broken connections.
 * @throws RametError `Timeout`; `Unauthorized` or `Forbidden` if the credentials are no longer accepted
 */
export async function follow<T extends KubeObject>({
  what,
  describe,
  ...wait
}: FollowOptions<T>): Promise<T | undefined> {
  let last: T | undefined = wait.from;
  const until = (seen: T | undefined): boolean => {
    last = seen;
    return wait.until(seen);
  };
  try {
    return await waitUntil({ ...wait, until });
  } catch (error) {
    const { code } = RametError.from(error);
    if (code === "Canceled") {
      const hint = "The operation continues in the cluster; run pulumi up again to wait for it";
      throw new RametError("Canceled", `Waiting for ${what} was canceled`, { hint, cause: error });
    }
    if (code !== "Timeout") throw error;
    const state = describe === undefined ? "" : `: ${describe(last)}`;
    const problem = `Waiting for ${what} timed out after ${wait.timeoutMilliseconds / 1000} s${state}`;
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
    super(visible(error.describe()), { cause: error });
    this.id = id;
    this.properties = properties;
    this.reasons = [this.message];
  }
}

interface SandboxWait {
  sandboxes: ResourceClient<Sandbox>;
  from: Sandbox;
  timeoutMilliseconds: number;
  /** For how long its start may fail, of which the controllers do not give up. @default that of builds and sets */
  startFailureMilliseconds?: number;
  log: (line: string) => void;
  signal: AbortSignal;
}

/**
 * Waits until a sandbox is ready, with its own identity.
 * @throws RametError with the reason if it fails, or if its containers cannot be started for minutes
 */
export async function waitUntilReady(wait: SandboxWait): Promise<Sandbox> {
  const { sandboxes, from, timeoutMilliseconds, startFailureMilliseconds = 180_000, log, signal } = wait;
  const { name } = from.metadata;
  const { clock } = sandboxes.client;
  let failingSince: number | undefined;
  const isStuck = (seen: Sandbox): boolean => {
    const now = clock.monotonicMilliseconds();
    failingSince = isStartFailing(seen) ? (failingSince ?? now) : undefined;
    return failingSince !== undefined && now - failingSince >= startFailureMilliseconds;
  };
  let last: string | undefined;
  const found = await follow({
    resource: sandboxes,
    from,
    what: `the sandbox ${name}`,
    describe: stateOf,
    until: (seen) => {
      const state = stateOf(seen);
      if (state !== last) log(state);
      last = state;
      return seen === undefined || isReady(seen) || hasEnded(seen) || isStuck(seen);
    },
    requeueAfterMilliseconds: Math.min(15_000, startFailureMilliseconds),
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

/** What the node or the registry refuses, such as an image that cannot be pulled. A user may still correct it in the cluster. */
function isStartFailing({ status }: Sandbox): boolean {
  const ready = findCondition(status?.conditions, "Ready");
  return ready?.status === "False" && startFailures.has(ready.reason);
}

const startFailures: ReadonlySet<string> = new Set(["StartContainerFailed", "ImageUnknown"]);

function stateOf(sandbox: Sandbox | undefined): string {
  return `${sandbox?.status?.phase ?? "waiting for the controller"}${reasonOf(sandbox)}`;
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
