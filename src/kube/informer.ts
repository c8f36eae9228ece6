import { canceled, unlessAborted } from "../base/clock.ts";
import { RametError } from "../base/errors.ts";
import { type Log, silentLog } from "../base/log.ts";
import type { Liveness } from "./liveness.ts";
import type { KubeObject } from "./object.ts";
import { type ReflectorTimings, defaultReflectorTimings, runReflector, selectNamespace } from "./reflector.ts";
import type { ResourceClient } from "./resource-client.ts";
import { type Change, ObjectStore } from "./store.ts";

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

/**
 * Objects that this process has just written, until the informer shows them: a decision from the version before its own write
 * would repeat the write. Resource versions are compared for equality only.
 *
 * A watch delivers every version, so a remembered object is newer than the informer's until the watch delivers it. A list may
 * skip versions, and then the informer would never show the remembered one. So a list drops all remembered objects. If the list
 * is older than the write, the watch that follows it delivers the written version.
 */
export class OwnWrites<T extends KubeObject> {
  readonly #informer: Pick<Informer<T>, "store">;
  readonly #unseen = new Map<string, { object: T; lists: number }>();
  /** For running writes, the versions that the informer has shown meanwhile: it may be faster than the response. */
  readonly #underWay = new Set<{ uid: string; shown: Set<string> }>();
  /** By UID, the written version that was already reconciled again. */
  readonly #settled = new Map<string, string>();
  /** Responses that were processed. A write without a change returns one of them again. */
  readonly #taken = new WeakSet<T>();

  constructor(informer: Pick<Informer<T>, "store">) {
    this.#informer = informer;
    informer.store.subscribe(({ type, object }) => {
      const { uid, resourceVersion } = object.metadata;
      for (const write of this.#underWay) if (write.uid === uid) write.shown.add(resourceVersion);
      const unseen = this.#unseen.get(uid);
      if (type === "deleted") this.#settled.delete(uid);
      if (type === "deleted" || unseen?.object.metadata.resourceVersion === resourceVersion) this.#unseen.delete(uid);
    });
  }

  /** The newer of the informer's version and the last written one. */
  latest(cached: T): T {
    const { uid } = cached.metadata;
    const unseen = this.#unseen.get(uid);
    if (unseen === undefined) return cached;
    if (unseen.lists === this.#informer.store.listsOf(cached.metadata.namespace)) return unseen.object;
    this.#unseen.delete(uid);
    return cached;
  }

  /** Marks a written version as reconciled: it needs no reconcile when the informer shows it. */
  settle({ metadata: { uid, resourceVersion } }: T): void {
    if (this.#informer.store.byUid(uid) !== undefined) this.#settled.set(uid, resourceVersion);
  }

  isSettled({ metadata: { uid, resourceVersion } }: T): boolean {
    return this.#settled.get(uid) === resourceVersion;
  }

  /** Runs `write`, which returns the written object, or `base` itself if nothing had to be written. */
  async write(base: T, write: () => Promise<T>): Promise<T> {
    const { store } = this.#informer;
    const lists = store.listsOf(base.metadata.namespace);
    const { uid } = base.metadata;
    const present = store.byUid(uid)?.metadata.resourceVersion;
    const underWay = { uid, shown: new Set(present === undefined ? [] : [present]) };
    this.#underWay.add(underWay);
    try {
      const object = await write();
      if (object === base || this.#taken.has(object)) return object;
      this.#taken.add(object);
      const isShown = underWay.shown.has(object.metadata.resourceVersion);
      if (store.byUid(uid) !== undefined && !isShown) this.#unseen.set(uid, { object, lists });
      return object;
    } finally {
      this.#underWay.delete(underWay);
    }
  }
}
