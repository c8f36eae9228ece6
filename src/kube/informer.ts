import { RametError } from "../base/errors.ts";
import { canceled } from "../base/clock.ts";
import { silentLog, type Log } from "../base/log.ts";
import type { Liveness } from "./liveness.ts";
import type { KubeObject } from "./object.ts";
import { defaultReflectorTimings, runReflector, type ReflectorTimings } from "./reflector.ts";
import type { ResourceClient } from "./resource-client.ts";
import { ObjectStore, type Change } from "./store.ts";

export interface InformerOptions<T extends KubeObject> {
  resource: ResourceClient<T>;
  /** @default all namespaces */
  namespace?: string;
  labelSelector?: string;
  fieldSelector?: string;
  log?: Log;
  timings?: Partial<ReflectorTimings>;
}

/**
 * A store that follows one resource and notifies listeners of changes. One informer serves all controllers of a process.
 * `metadata.managedFields` is dropped: it is often the larger half of an object.
 */
export class Informer<T extends KubeObject> {
  readonly resource: ResourceClient<T>;
  readonly store: ObjectStore<T>;
  readonly #options: InformerOptions<T>;
  readonly #log: Log;
  readonly #firstList = Promise.withResolvers<undefined>();
  /** Undefined while the informer does not run. */
  #lastProgressAt: number | undefined;

  constructor(options: InformerOptions<T>) {
    this.#options = options;
    this.#log = options.log ?? silentLog;
    this.resource = options.resource;
    this.store = new ObjectStore((error) => {
      this.#log.error({ error: RametError.from(error).message }, `a listener for ${options.resource.ref.plural} threw`);
    });
  }

  /**
   * Follows the resource until `signal` is aborted.
   *
   * @param liveness fails if the informer makes no progress
   */
  async run(signal: AbortSignal, liveness?: Liveness): Promise<void> {
    const { plural } = this.resource.ref;
    if (this.#lastProgressAt !== undefined)
      throw new RametError("Internal", `The informer of ${plural} is already running`);
    const { namespace, labelSelector, fieldSelector, timings } = this.#options;
    const onProgress = (): void => {
      this.#lastProgressAt = this.resource.client.clock.monotonicMilliseconds();
    };
    onProgress();
    const endCheck = liveness?.add({
      waitingSince: () => this.#lastProgressAt,
      describe: () => `The informer of ${plural} has made no progress`,
    });
    await runReflector(
      {
        resource: this.resource,
        select: { namespace, labelSelector, fieldSelector },
        store: this.store,
        parse: (value) => this.resource.read(withoutManagedFields(value)),
        timings: { ...defaultReflectorTimings, ...timings },
        log: this.#log,
        onList: () => {
          this.#firstList.resolve(undefined);
        },
        onProgress,
      },
      signal,
    );
    endCheck?.();
    this.#lastProgressAt = undefined;
  }

  /** Resolves after the first complete list. @throws RametError `Canceled` if `signal` is aborted first */
  async synced(signal?: AbortSignal): Promise<void> {
    if (signal === undefined) {
      await this.#firstList.promise;
      return;
    }
    const what = `Waiting for the first list of ${this.resource.ref.plural}`;
    const aborted = Promise.withResolvers<never>();
    const onAbort = (): void => {
      aborted.reject(canceled(what, signal));
    };
    if (signal.aborted) onAbort();
    signal.addEventListener("abort", onAbort, { once: true });
    try {
      await Promise.race([this.#firstList.promise, aborted.promise]);
    } finally {
      signal.removeEventListener("abort", onAbort);
    }
  }

  /**
   * Calls `listener` for each known object, as added, and then for each change. A listener must be fast: it adds keys to queues.
   *
   * @returns a function that ends the calls
   */
  onChange(listener: (change: Change<T>) => void): () => void {
    const unsubscribe = this.store.subscribe(listener);
    for (const object of this.store.list()) listener({ type: "added", object });
    return unsubscribe;
  }
}

function withoutManagedFields(value: unknown): unknown {
  if (typeof value === "object" && value !== null && "metadata" in value) {
    const { metadata } = value;
    if (typeof metadata === "object" && metadata !== null && "managedFields" in metadata) {
      const { managedFields: _, ...rest } = metadata;
      return { ...value, metadata: rest };
    }
  }
  return value;
}
