import { RametError } from "../../src/api/errors.ts";
import { Informer } from "../../src/kube/informer.ts";
import { silentLog } from "../../src/kube/log.ts";
import { keyOf, type KubeObject, type ObjectName } from "../../src/kube/object.ts";
import type { ResourceClient } from "../../src/kube/resource-client.ts";

export interface FollowOptions<T extends KubeObject> {
  resource: ResourceClient<T>;
  at: ObjectName;
  /** Whether the waiting is over; `undefined` is an object that is not there. */
  until: (object: T | undefined) => boolean;
  /** Looked at again after this although nothing has changed: for what may heal by itself in a while. */
  lookAgainAfterMilliseconds?: number;
  timeoutMilliseconds: number;
  /** What is waited for, for the message of a timeout: `the snapshot a`. */
  what: string;
}

/**
 * Follows one object until it is as wished, and answers it as it was then. Broken connections are taken up again.
 * @throws RametError `Timeout`; `Unauthorized` or `Forbidden` when the credentials are accepted no longer
 */
export async function follow<T extends KubeObject>(options: FollowOptions<T>): Promise<T | undefined> {
  const { resource, at, until, lookAgainAfterMilliseconds, timeoutMilliseconds } = options;
  const { clock } = resource.client;
  const ended = new AbortController();
  const over = Promise.withResolvers<T | undefined>();
  const informer = new Informer({
    resource,
    log: { ...silentLog, warn: () => void endIfRefused(resource, at, over.reject) },
    ...(at.namespace !== undefined && { namespace: at.namespace }),
    fieldSelector: `metadata.name=${at.name}`,
  });
  const look = (): void => {
    const found = informer.store.get(keyOf(at));
    if (until(found)) over.resolve(found);
  };
  const timers = [
    clock.schedule(timeoutMilliseconds, () => {
      const problem = `Waiting for ${options.what} took too long: more than ${timeoutMilliseconds / 1000} s`;
      over.reject(
        new RametError("Timeout", problem, { hint: "The cluster goes on with it; run pulumi up again to follow it" }),
      );
    }),
    ...(lookAgainAfterMilliseconds === undefined ? [] : [clock.schedule(lookAgainAfterMilliseconds, look)]),
  ];
  const running = informer.run(ended.signal);
  try {
    informer.store.subscribe(look);
    await Promise.race([informer.synced(ended.signal), over.promise]);
    look();
    return await over.promise;
  } finally {
    for (const cancel of timers) cancel();
    ended.abort();
    await running;
  }
}

/** An informer goes on for ever; of what fails again and again, it tells its log. */
async function endIfRefused<T extends KubeObject>(
  resource: ResourceClient<T>,
  at: ObjectName,
  end: (error: RametError) => void,
): Promise<void> {
  try {
    await resource.find(at);
  } catch (error) {
    const known = RametError.from(error);
    if (known.code === "Unauthorized" || known.code === "Forbidden") end(known);
  }
}
