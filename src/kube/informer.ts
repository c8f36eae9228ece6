import { RametError } from "../base/errors.ts";
import { canceled, unlessAborted } from "../base/clock.ts";
import { silentLog, type Log } from "../base/log.ts";
import type { Liveness } from "./liveness.ts";
import type { KubeObject } from "./object.ts";
import { defaultReflectorTimings, runReflector, type ReflectorTimings, selectNamespace } from "./reflector.ts";
import type { ResourceClient } from "./resource-client.ts";
import { ObjectStore, type Change } from "./store.ts";

export interface InformerOptions<T extends KubeObject> {
  resource: ResourceClient<T>;
  /** Only objects of these namespaces; of the resource `namespaces`, only these. @default all */
  namespaces?: readonly string[] | undefined;
  labelSelector?: string;
  fieldSelector?: string;
  /** Objects that no reader of the store sees. @default none */
  excludes?: (object: T) => boolean;
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
  /** When each reflector made progress; empty while the informer does not run. */
  readonly #progress = new Map<string | undefined, number>();
  /** When the API server last answered each reflector. */
  readonly #answers = new Map<string | undefined, number>();

  /** The reflectors whose list or watch has failed since the API server last accepted one. */
  readonly #interrupted = new Set<string | undefined>();

  readonly follows = (namespace: string): boolean => this.#options.namespaces?.includes(namespace) ?? true;

  constructor(options: InformerOptions<T>) {
    this.#options = options;
    this.#log = options.log ?? silentLog;
    this.resource = options.resource;
    this.store = new ObjectStore((error) => {
      this.#log.error({ error: RametError.from(error).message }, `a listener for ${options.resource.ref.plural} threw`);
    }, options.excludes);
  }

  /**
   * Follows the resource until `signal` is aborted.
   *
   * @param liveness fails if the informer makes no progress
   */
  async run(signal: AbortSignal, liveness?: Liveness): Promise<void> {
    const { plural } = this.resource.ref;
    if (this.#progress.size > 0) throw new RametError("Internal", `The informer of ${plural} is already running`);
    const reflected = this.#options.namespaces ?? [undefined];
    for (const namespace of reflected) this.#noteProgress(namespace);
    const endCheck = liveness?.add({
      waitingSince: () => (this.#progress.size === 0 ? undefined : Math.min(...this.#progress.values())),
      describe: () => `The informer of ${plural} has made no progress`,
    });
    const unlisted = new Set(reflected);
    const onList = (namespace: string | undefined): void => {
      unlisted.delete(namespace);
      if (unlisted.size === 0) this.#firstList.resolve(undefined);
    };
    await Promise.all(reflected.map((namespace) => this.#reflect(namespace, onList, signal)));
    endCheck?.();
    this.#progress.clear();
  }

  async #reflect(
    namespace: string | undefined,
    onList: (namespace: string | undefined) => void,
    signal: AbortSignal,
  ): Promise<void> {
    const { labelSelector, fieldSelector, timings } = this.#options;
    await runReflector(
      {
        resource: this.resource,
        select: { labelSelector, fieldSelector },
        namespace,
        store: this.store,
        parse: (value) => this.resource.read(withoutManagedFields(value)),
        timings: { ...defaultReflectorTimings, ...timings },
        log: this.#log,
        onList: () => {
          onList(namespace);
        },
        onProgress: () => {
          this.#noteProgress(namespace);
        },
        onAnswer: () => {
          this.#answers.set(namespace, this.resource.client.clock.monotonicMilliseconds());
          this.#interrupted.delete(namespace);
        },
        onWatch: () => {
          this.#interrupted.delete(namespace);
        },
        onFailure: () => {
          this.#interrupted.add(namespace);
        },
      },
      signal,
    );
  }

  #noteProgress(namespace: string | undefined): void {
    this.#progress.set(namespace, this.resource.client.clock.monotonicMilliseconds());
  }

  /** Whether changes may arrive later than a watch lags behind, because one has failed. */
  get isInterrupted(): boolean {
    return this.#interrupted.size > 0;
  }

  /** For how long the API server has reported nothing about a namespace. `Infinity` before the first list. */
  silentMilliseconds(namespace: string): number {
    const answeredAt = this.#answers.get(this.#options.namespaces && namespace) ?? -Infinity;
    return this.resource.client.clock.monotonicMilliseconds() - answeredAt;
  }

  /** Lists from the API server what the informer follows. */
  async listNow(signal?: AbortSignal): Promise<T[]> {
    const { namespaces = [undefined], labelSelector, fieldSelector } = this.#options;
    const lists = await Promise.all(
      namespaces.map((namespace) =>
        this.resource.list({
          labelSelector,
          fieldSelector,
          ...selectNamespace(this.resource.ref, namespace),
          signal,
        }),
      ),
    );
    return lists.flatMap(({ items }) => items);
  }

  /** Resolves after the first complete list. @throws RametError `Canceled` if `signal` is aborted first */
  async synced(signal?: AbortSignal): Promise<void> {
    const listed = this.#firstList.promise;
    const what = `Waiting for the first list of ${this.resource.ref.plural}`;
    await (signal === undefined ? listed : unlessAborted(listed, signal, () => canceled(what, signal)));
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
