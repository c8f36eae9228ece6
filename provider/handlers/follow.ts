import { fieldsIgnored } from "../../src/api/fields/find-ignored.ts";
import { conditionOf, type WithConditions } from "../../src/api/state/problem.ts";
import { RametError } from "../../src/base/errors.ts";
import { visible } from "../../src/base/visible.ts";
import type { KubeObject } from "../../src/kube/object.ts";
import type { ResourceClient } from "../../src/kube/resource-client.ts";
import { type WaitOptions, waitUntil } from "../../src/kube/wait-until.ts";
import type { Settled, Watched } from "../../src/operations/objects.ts";
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
    if (code !== "Canceled" && code !== "Timeout") throw error;
    const state = describe === undefined ? "" : `: ${describe(last)}`;
    const ended = code === "Canceled" ? "was canceled" : `timed out after ${wait.timeoutMilliseconds / 1000} s${state}`;
    const hint = "The operation continues in the cluster; run pulumi up again to wait for it";
    throw new RametError(code, `Waiting for ${what} ${ended}`, { hint, cause: error });
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

/**
 * The objects of a kind for operations: followed by watches, with a line of progress for each new state.
 * @param describeProgress the state for these lines. Default: that of the operation
 */
export function followed<T extends KubeObject>(
  resource: ResourceClient<T>,
  log: (line: string) => void,
  describeProgress?: (object: T | undefined) => string,
): Watched<T> {
  return {
    follow: async (from, { until, describe, ...following }) => {
      const { clock } = resource.client;
      const started = clock.monotonicMilliseconds();
      let result: ReturnType<typeof until>;
      let last: string | undefined;
      await follow({
        resource,
        from,
        describe,
        until: (seen) => {
          const state = (describeProgress ?? describe)(seen);
          if (state !== last) log(state);
          last = state;
          result = until(seen, clock.monotonicMilliseconds() - started);
          return result !== undefined || seen === undefined;
        },
        ...following,
      });
      if (result !== undefined) return result;
      throw new RametError("Conflict", `${following.what} was deleted during the wait`);
    },
  };
}

/**
 * The object of a wait that has reached its state. Logs its fields without effect, which the controllers have named.
 * @param hint what to do about a failure without another hint
 * @throws RametError the failure
 */
export function settledObject<T extends WithConditions>(
  settled: Settled<T>,
  { log, hint }: { log: (line: string) => void; hint: string },
): T {
  if ("failure" in settled) {
    const { code, message, hint: known = hint, retryable } = settled.failure;
    throw new RametError(code, message, { hint: known, retryable, cause: settled.failure });
  }
  const ignored = conditionOf(settled.object, fieldsIgnored);
  if (ignored?.status === "True") log(`Warning: ${ignored.message}`);
  return settled.object;
}
