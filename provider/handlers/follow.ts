import { RametError } from "../../src/base/errors.ts";
import type { KubeObject } from "../../src/kube/object.ts";
import { type WaitOptions, waitUntil } from "../../src/kube/wait-until.ts";
import type { Values } from "./handler.ts";

export interface FollowOptions<T extends KubeObject> extends WaitOptions<T> {
  /** What is waited for, for the message of a timeout: `the snapshot a`. */
  what: string;
}

/**
 * Follows one object until it is as wished, and answers it as it was then. Broken connections are taken up again.
 * @throws RametError `Timeout`; `Unauthorized` or `Forbidden` when the credentials are accepted no longer
 */
export async function follow<T extends KubeObject>({ what, ...wait }: FollowOptions<T>): Promise<T | undefined> {
  try {
    return await waitUntil(wait);
  } catch (error) {
    if (RametError.from(error).code !== "Timeout") throw error;
    const problem = `Waiting for ${what} took too long: more than ${wait.timeoutMilliseconds / 1000} s`;
    const hint = "The cluster goes on with it; run pulumi up again to follow it";
    throw new RametError("Timeout", problem, { hint, cause: error });
  }
}

/**
 * Thrown when an object is in the cluster and did not come to be what was wished: Pulumi keeps it in its state, with the reason,
 * and the next `pulumi up` goes on with it.
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
