import { backoffMilliseconds, canceled, delay } from "../base/clock.ts";
import { RametError } from "../base/errors.ts";
import { within } from "../base/within.ts";
import type { KubeObject } from "./object.ts";
import { defaultReflectorTimings } from "./reflector.ts";
import type { ResourceClient } from "./resource-client.ts";
import type { WatchEvent } from "./watch.ts";

export interface WaitOptions<T extends KubeObject> {
  resource: ResourceClient<T>;
  /** The object as it was created or read: the watch starts from its version. */
  from: T;
  /** Whether to stop waiting; undefined: the object was deleted. Its errors reject the promise. */
  until: (object: T | undefined) => boolean;
  /** Called with each state, including the first. */
  onState?: (object: T | undefined) => void;
  /** How often to read the object again even if nothing has changed. @default never */
  requeueAfterMilliseconds?: number;
  /** Infinity: no limit. */
  timeoutMilliseconds: number;
  signal?: AbortSignal;
}

/**
 * Watches one object until it matches, and returns it. Broken connections are opened again. A request that is rejected once is
 * repeated: a starting server may reject valid credentials. An object of the same name with another UID counts as deleted.
 *
 * @throws RametError `Timeout` or `Canceled`; `NotFound` if the object is deleted and `until` does not accept that; the error of
 *   a request that is rejected twice in a row, such as `Unauthorized` or `Forbidden`
 */
export async function waitUntil<T extends KubeObject>(options: WaitOptions<T>): Promise<T | undefined> {
  const { resource, timeoutMilliseconds, signal } = options;
  const { clock } = resource.client;
  const deadline = { clock, milliseconds: timeoutMilliseconds, what: "Waiting", signal };
  try {
    return await within(deadline, (ended) => firstMatch(options, ended));
  } catch (error) {
    if (signal?.aborted === true) throw canceled("Waiting", signal);
    throw error;
  }
}

async function firstMatch<T extends KubeObject>(options: WaitOptions<T>, signal: AbortSignal): Promise<T | undefined> {
  for await (const object of states(options, signal)) {
    options.onState?.(object);
    if (options.until(object)) return object;
  }
  throw new RametError("NotFound", "the object was deleted");
}

/** Yields the object first, after each change and after each interruption. Ends with undefined when it is deleted. */
async function* states<T extends KubeObject>(
  { resource, from, requeueAfterMilliseconds = Infinity }: WaitOptions<T>,
  signal: AbortSignal,
): AsyncGenerator<T | undefined> {
  const failures = new Failures(resource, signal);
  const unlessReplaced = (object: T | undefined) => (object?.metadata.uid === from.metadata.uid ? object : undefined);
  let object: T | undefined = from;
  for (;;) {
    yield object;
    if (object === undefined) return;
    // The object is read after each watch, so ending the watch requeues it.
    const requeue = new AbortController();
    const cancelRequeue = resource.client.clock.schedule(requeueAfterMilliseconds, () => {
      requeue.abort();
    });
    const watching = AbortSignal.any([signal, requeue.signal]);
    try {
      for await (const event of changes(resource, object, watching)) {
        failures.reset();
        if (event.type === "BOOKMARK") continue;
        const seen = event.type === "DELETED" ? undefined : unlessReplaced(resource.read(event.object));
        yield seen;
        if (seen === undefined) return;
      }
    } catch (error) {
      if (signal.aborted || !watching.aborted) await failures.pauseAfter(error);
    } finally {
      cancelRequeue();
    }
    try {
      object = unlessReplaced(await resource.find(from.metadata, { signal }));
    } catch (error) {
      await failures.pauseAfter(error);
    }
  }
}

function changes<T extends KubeObject>(
  resource: ResourceClient<T>,
  { metadata: { name, namespace, resourceVersion } }: T,
  signal: AbortSignal,
): AsyncGenerator<WatchEvent<unknown>> {
  const { watchTimeoutSeconds: timeoutSeconds, stallMilliseconds } = defaultReflectorTimings;
  const fieldSelector = `metadata.name=${name}`;
  return resource.watch({ namespace, fieldSelector, resourceVersion, timeoutSeconds, stallMilliseconds, signal });
}

/** Counts consecutive failures, and the rejections among them, which a retry rarely fixes. */
class Failures {
  readonly #resource: Pick<ResourceClient<KubeObject>, "client">;
  readonly #signal: AbortSignal;
  #count = 0;
  #rejections = 0;

  constructor(resource: Pick<ResourceClient<KubeObject>, "client">, signal: AbortSignal) {
    this.#resource = resource;
    this.#signal = signal;
  }

  reset(): void {
    this.#count = 0;
    this.#rejections = 0;
  }

  /** Waits, longer after each consecutive failure. @throws `error` after a second rejection, or if it is not a RametError */
  async pauseAfter(error: unknown): Promise<void> {
    if (this.#signal.aborted || !(error instanceof RametError)) throw error;
    if (!error.retryable && this.#rejections++ > 0) throw error;
    const { clock, random } = this.#resource.client;
    await delay(clock, backoffMilliseconds(defaultReflectorTimings.backoff, this.#count++, random), this.#signal);
  }
}
