import { RametError } from "../../src/base/errors.ts";
import type { KubeObject } from "../../src/kube/object.ts";
import { waitUntil, type WaitOptions } from "../../src/kube/wait-until.ts";

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
