import { RametError } from "../base/errors.ts";
import { canceled } from "../base/clock.ts";
import { silentLog, type Log } from "../base/log.ts";
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
 * A store that follows one resource, and whoever wants to hear of changes. One informer serves all controllers of a
 * process. `metadata.managedFields` is not kept: it is often the larger half of an object.
 */
export class Informer<T extends KubeObject> {
  readonly resource: ResourceClient<T>;
  readonly store: ObjectStore<T>;
  readonly #options: InformerOptions<T>;
  readonly #log: Log;
  readonly #firstList = Promise.withResolvers<undefined>();
  #lastListAt: number | undefined;
  #running = false;

  constructor(options: InformerOptions<T>) {
    this.#options = options;
    this.#log = options.log ?? silentLog;
    this.resource = options.resource;
    this.store = new ObjectStore((error) => {
      this.#log.error({ error: RametError.from(error).message }, `a listener for ${options.resource.ref.plural} threw`);
    });
  }

  /** Follows the resource until `signal` is aborted. */
  async run(signal: AbortSignal): Promise<void> {
    if (this.#running) throw new RametError("Internal", `The informer of ${this.resource.ref.plural} runs already`);
    this.#running = true;
    const { namespace, labelSelector, fieldSelector, timings } = this.#options;
    await runReflector(
      {
        resource: this.resource,
        select: { namespace, labelSelector, fieldSelector },
        store: this.store,
        parse: (value) => this.resource.read(withoutManagedFields(value)),
        timings: { ...defaultReflectorTimings, ...timings },
        log: this.#log,
        onList: () => {
          this.#lastListAt = this.resource.client.clock.monotonicMilliseconds();
          this.#firstList.resolve(undefined);
        },
      },
      signal,
    );
    this.#running = false;
  }

  /** Resolves when the store has had a whole list. @throws RametError `Canceled` when `signal` is aborted before */
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

  get isSynced(): boolean {
    return this.#lastListAt !== undefined;
  }

  /** How long ago everything was last listed; for a liveness probe. */
  get listAgeMilliseconds(): number | undefined {
    return this.#lastListAt === undefined
      ? undefined
      : this.resource.client.clock.monotonicMilliseconds() - this.#lastListAt;
  }

  /**
   * Calls `listener` for what is there already, as added, and then for each change. What is returned ends that. A
   * listener does next to nothing: it puts keys into queues.
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
