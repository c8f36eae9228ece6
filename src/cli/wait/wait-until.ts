import { RametError } from "../../api/errors.ts";
import { backoffMilliseconds } from "../../kube/backoff.ts";
import { canceled, delay } from "../../kube/clock.ts";
import type { KubeObject } from "../../kube/object.ts";
import { defaultReflectorTimings } from "../../kube/reflector.ts";
import type { ResourceClient } from "../../kube/resource-client.ts";

export interface WaitOptions<T extends KubeObject> {
  resource: ResourceClient<T>;
  /** From where to watch: as it was created, or read. */
  from: T;
  /** Whether the waiting is over; `undefined` is an object that is gone. What it throws is thrown. */
  until: (object: T | undefined) => boolean;
  /** Each state that was seen, the first too. */
  onState?: (object: T | undefined) => void;
  /** Infinite is for ever. */
  timeoutMilliseconds: number;
  signal: AbortSignal;
}

/**
 * Follows one object, by watch, until it is as wanted. Broken connections are taken up again; an object of the same name
 * with another UID counts as gone.
 *
 * @throws RametError `Timeout` or `Canceled`
 */
export async function waitUntil<T extends KubeObject>(options: WaitOptions<T>): Promise<T | undefined> {
  const { clock } = options.resource.client;
  const timeout = new AbortController();
  const milliseconds = options.timeoutMilliseconds;
  const cancel =
    milliseconds === Infinity
      ? () => undefined
      : clock.schedule(milliseconds, () => {
          timeout.abort(new RametError("Timeout", `nothing more happened within ${milliseconds} ms`));
        });
  try {
    return await follow(options, AbortSignal.any([options.signal, timeout.signal]));
  } catch (error) {
    if (timeout.signal.aborted) throw timeout.signal.reason;
    if (options.signal.aborted) throw canceled("Waiting", options.signal);
    throw error;
  } finally {
    cancel();
  }
}

async function follow<T extends KubeObject>(options: WaitOptions<T>, signal: AbortSignal): Promise<T | undefined> {
  const { resource, until, onState } = options;
  let object: T | undefined = options.from;
  let failures = 0;
  for (;;) {
    onState?.(object);
    if (until(object)) return object;
    if (object === undefined) throw new RametError("NotFound", "it is gone");
    try {
      for await (const seen of states(resource, object, signal)) {
        failures = 0;
        onState?.(seen);
        if (until(seen)) return seen;
      }
    } catch (error) {
      await pauseAfter(error, failures++, resource, signal);
    }
    try {
      object = await sameAs(options.from, resource, signal);
    } catch (error) {
      await pauseAfter(error, failures++, resource, signal);
    }
  }
}

/** Waits after what another try may mend, longer each time in a row; throws what it cannot. */
async function pauseAfter(
  error: unknown,
  failures: number,
  { client: { clock, random } }: Pick<ResourceClient<KubeObject>, "client">,
  signal: AbortSignal,
): Promise<void> {
  if (signal.aborted || !(error instanceof RametError) || !error.retryable) throw error;
  await delay(clock, backoffMilliseconds(defaultReflectorTimings.backoff, failures, random), signal);
}

/** The states of one object after the one that is known; `undefined` when it is deleted. Ends with the watch. */
async function* states<T extends KubeObject>(
  resource: ResourceClient<T>,
  known: T,
  signal: AbortSignal,
): AsyncGenerator<T | undefined> {
  const { watchTimeoutSeconds, stallMilliseconds } = defaultReflectorTimings;
  const { name, namespace, resourceVersion, uid } = known.metadata;
  for await (const event of resource.watch({
    namespace,
    fieldSelector: `metadata.name=${name}`,
    resourceVersion,
    timeoutSeconds: watchTimeoutSeconds,
    stallMilliseconds,
    signal,
  })) {
    if (event.type === "BOOKMARK") continue;
    const object = resource.read(event.object);
    yield event.type === "DELETED" || object.metadata.uid !== uid ? undefined : object;
  }
}

async function sameAs<T extends KubeObject>(
  from: T,
  resource: ResourceClient<T>,
  signal: AbortSignal,
): Promise<T | undefined> {
  const found = await resource.find(from.metadata, { signal });
  return found?.metadata.uid === from.metadata.uid ? found : undefined;
}
