import { RametError } from "../../src/base/errors.ts";
import type { KubeObject } from "../../src/kube/object.ts";
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
    if (RametError.from(error).code !== "Timeout") throw error;
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
