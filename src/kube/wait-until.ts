import { RametError } from "../base/errors.ts";
import { backoffMilliseconds } from "../base/backoff.ts";
import { canceled, delay } from "../base/clock.ts";
import type { KubeObject } from "./object.ts";
import { defaultReflectorTimings } from "./reflector.ts";
import type { ResourceClient } from "./resource-client.ts";
import type { WatchEvent } from "./watch.ts";

export interface WaitOptions<T extends KubeObject> {
  resource: ResourceClient<T>;
  /** From where to watch: as it was created, or read. */
  from: T;
  /** Whether the waiting is over; `undefined` is an object that is gone. What it throws is thrown. */
  until: (object: T | undefined) => boolean;
  /** Each state that was seen, the first too. */
  onState?: (object: T | undefined) => void;
  /** Read and looked at again after this although nothing has changed: for what may heal by itself in a while. */
  requeueAfterMilliseconds?: number;
  /** Infinite is for ever. */
  timeoutMilliseconds: number;
  signal?: AbortSignal;
}

/**
 * Follows one object, by watch, until it is as wanted, and answers it as it was then. Broken connections are taken up
 * again, and so is what is refused once: a server that starts may know nobody yet. An object of the same name with
 * another UID counts as gone.
 *
 * @throws RametError `Timeout` or `Canceled`; `NotFound` when it is gone and that is not what is wanted; what the server
 *   refuses twice in a row, such as `Unauthorized` or `Forbidden` when the credentials are accepted no longer
 */
export async function waitUntil<T extends KubeObject>(options: WaitOptions<T>): Promise<T | undefined> {
  const { resource, until, onState, timeoutMilliseconds, requeueAfterMilliseconds = Infinity } = options;
  const { clock } = resource.client;
  const timeout = new AbortController();
  const again = new AbortController();
  const timers = [
    clock.schedule(timeoutMilliseconds, () => {
      timeout.abort(new RametError("Timeout", `nothing more happened within ${timeoutMilliseconds} ms`));
    }),
    clock.schedule(requeueAfterMilliseconds, () => {
      again.abort();
    }),
  ];
  const signals = options.signal === undefined ? [timeout.signal] : [timeout.signal, options.signal];
  try {
    for await (const object of states(options, AbortSignal.any(signals), again.signal)) {
      onState?.(object);
      if (until(object)) return object;
    }
    throw new RametError("NotFound", "it is gone");
  } catch (error) {
    if (timeout.signal.aborted) throw timeout.signal.reason;
    if (options.signal?.aborted === true) throw canceled("Waiting", options.signal);
    throw error;
  } finally {
    for (const cancel of timers) cancel();
  }
}

/** One object as it is known, at each change, and after each interruption; when it is gone, `undefined` and the end. */
async function* states<T extends KubeObject>(
  { resource, from }: Pick<WaitOptions<T>, "resource" | "from">,
  signal: AbortSignal,
  again: AbortSignal,
): AsyncGenerator<T | undefined> {
  const troubles = new Troubles(resource, signal);
  const unlessReplaced = (object: T | undefined) => (object?.metadata.uid === from.metadata.uid ? object : undefined);
  let object: T | undefined = from;
  for (;;) {
    yield object;
    if (object === undefined) return;
    // It is read after each watch, so what ends this one has it looked at again.
    const watching = again.aborted ? signal : AbortSignal.any([signal, again]);
    try {
      for await (const event of changes(resource, object, watching)) {
        troubles.areOver();
        if (event.type === "BOOKMARK") continue;
        const seen = event.type === "DELETED" ? undefined : unlessReplaced(resource.read(event.object));
        yield seen;
        if (seen === undefined) return;
      }
    } catch (error) {
      if (signal.aborted || !watching.aborted) await troubles.pauseAfter(error);
    }
    try {
      object = unlessReplaced(await resource.find(from.metadata, { signal }));
    } catch (error) {
      await troubles.pauseAfter(error);
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

/** Failures in a row, and refusals among them, which another try seldom mends. */
class Troubles {
  readonly #resource: Pick<ResourceClient<KubeObject>, "client">;
  readonly #signal: AbortSignal;
  #failures = 0;
  #refusals = 0;

  constructor(resource: Pick<ResourceClient<KubeObject>, "client">, signal: AbortSignal) {
    this.#resource = resource;
    this.#signal = signal;
  }

  areOver(): void {
    this.#failures = 0;
    this.#refusals = 0;
  }

  /** Waits, longer each time in a row. @throws what is refused again, and what nobody foresaw */
  async pauseAfter(error: unknown): Promise<void> {
    if (this.#signal.aborted || !(error instanceof RametError)) throw error;
    if (!error.retryable && this.#refusals++ > 0) throw error;
    const { clock, random } = this.#resource.client;
    await delay(clock, backoffMilliseconds(defaultReflectorTimings.backoff, this.#failures++, random), this.#signal);
  }
}
