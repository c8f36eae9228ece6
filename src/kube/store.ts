import { keyOf, type KubeObject } from "./object.ts";

/** A change of one object. An object that was recreated under its name is deleted, then added. */
export type Change<T> =
  { type: "added"; object: T } | { type: "updated"; object: T; previous: T } | { type: "deleted"; object: T };

/** The values by which an index finds an object. */
export type IndexFunction<T> = (object: T) => readonly string[];

/**
 * The last seen objects of one resource, by key (`namespace/name`), by UID and by added indexes. Excluded objects are known, but
 * in none of these: for a reader, an object that becomes excluded is deleted, and one that no longer is, added.
 *
 * The objects are shared and must not be changed. Resource versions are compared for equality only.
 */
export class ObjectStore<T extends KubeObject> {
  readonly #byKey = new Map<string, T>();
  readonly #byUid = new Map<string, T>();
  readonly #indexes: Index<T>[] = [];
  readonly #listeners = new Set<(change: Change<T>) => void>();
  /** By key. */
  readonly #excluded = new Map<string, T>();
  /** UIDs of deleted objects, which cannot return. The oldest are dropped first. */
  readonly #retiredUids = new Set<string>();
  readonly #onListenerError: (error: unknown) => void;
  /** The number of lists by the namespace that they cover; undefined: all. */
  readonly #lists = new Map<string | undefined, number>();
  readonly #excludes: (object: T) => boolean;

  /**
   * @param onListenerError called with the error of a listener that threw; the other listeners are still called
   * @param excludes call `reconsider` when its result for the same object may have changed. Default: it excludes nothing
   */
  constructor(onListenerError: (error: unknown) => void, excludes: (object: T) => boolean = () => false) {
    this.#onListenerError = onListenerError;
    this.#excludes = excludes;
  }

  get size(): number {
    return this.#byKey.size;
  }

  /** The number of received lists that cover a namespace. A list is counted before its changes are reported. */
  listsOf(namespace: string | undefined): number {
    const ofAll = this.#lists.get(undefined) ?? 0;
    return namespace === undefined ? ofAll : ofAll + (this.#lists.get(namespace) ?? 0);
  }

  get(key: string): T | undefined {
    return this.#byKey.get(key);
  }

  byUid(uid: string): T | undefined {
    return this.#byUid.get(uid);
  }

  /** Whether an object with this UID was deleted. Only the latest deletions are known. */
  isRetired(uid: string): boolean {
    return this.#retiredUids.has(uid);
  }

  list(): T[] {
    return [...this.#byKey.values()];
  }

  /** The objects that exist and are excluded. */
  excluded(): T[] {
    return [...this.#excluded.values()];
  }

  /** Excludes known objects, and includes excluded ones, as they are excluded now. */
  reconsider(isConcerned: (object: T) => boolean): void {
    for (const object of [...this.list(), ...this.excluded()]) {
      if (isConcerned(object)) this.put(object);
    }
  }

  /** Adds an index and returns its look-up. */
  index(valuesOf: IndexFunction<T>): (value: string) => T[] {
    const index: Index<T> = { valuesOf, objects: new Map() };
    for (const object of this.#byKey.values()) addToIndex(index, object);
    this.#indexes.push(index);
    return (value) => [...(index.objects.get(value) ?? [])];
  }

  /** Calls `listener` for each later change. @returns a function that ends the calls */
  subscribe(listener: (change: Change<T>) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Stores an object that was just seen. A known version, and one that arrives after a deletion, changes nothing. */
  put(object: T): void {
    const { uid, resourceVersion } = object.metadata;
    if (this.#retiredUids.has(uid)) return;
    const key = keyOf(object.metadata);
    const previous = this.#byKey.get(key);
    if (this.#excludes(object)) {
      if (previous !== undefined) this.remove(previous, previous.metadata.uid !== uid);
      this.#excluded.set(key, object);
      return;
    }
    this.#excluded.delete(key);
    if (previous === undefined) {
      this.#insert(object);
      this.#emit({ type: "added", object });
    } else if (previous.metadata.uid !== uid) {
      this.remove(previous, true);
      this.put(object);
    } else if (previous.metadata.resourceVersion !== resourceVersion) {
      this.#drop(previous);
      this.#insert(object);
      this.#emit({ type: "updated", object, previous });
    }
  }

  /**
   * Removes an object, unless another one has its name now.
   *
   * @param final whether the object was deleted; one that only left a selection can return with its UID
   */
  remove(object: T, final: boolean): void {
    const { uid } = object.metadata;
    if (final) this.#retire(uid);
    if (this.#excluded.get(keyOf(object.metadata))?.metadata.uid === uid) this.#excluded.delete(keyOf(object.metadata));
    const known = this.#byUid.get(uid);
    if (known === undefined) return;
    this.#drop(known);
    this.#emit({ type: "deleted", object });
  }

  /**
   * Replaces all objects, or those of one namespace, by a new list.
   * @param final whether objects that are not in it were deleted
   */
  replace(objects: readonly T[], final: boolean, namespace?: string): void {
    this.#lists.set(namespace, (this.#lists.get(namespace) ?? 0) + 1);
    const uids = new Set(objects.map((object) => object.metadata.uid));
    const keys = new Set(objects.map((object) => keyOf(object.metadata)));
    for (const known of [...this.list(), ...this.excluded()]) {
      if (namespace !== undefined && !isIn(namespace, known)) continue;
      // If another object has its name, the object was deleted, even with a selection.
      if (!uids.has(known.metadata.uid)) this.remove(known, final || keys.has(keyOf(known.metadata)));
    }
    for (const object of objects) this.put(object);
  }

  #insert(object: T): void {
    this.#byKey.set(keyOf(object.metadata), object);
    this.#byUid.set(object.metadata.uid, object);
    for (const index of this.#indexes) addToIndex(index, object);
  }

  #drop(object: T): void {
    this.#byKey.delete(keyOf(object.metadata));
    this.#byUid.delete(object.metadata.uid);
    for (const index of this.#indexes) removeFromIndex(index, object);
  }

  #retire(uid: string): void {
    this.#retiredUids.add(uid);
    if (this.#retiredUids.size <= mostRetiredUids) return;
    for (const oldest of this.#retiredUids) {
      this.#retiredUids.delete(oldest);
      return;
    }
  }

  #emit(change: Change<T>): void {
    for (const listener of this.#listeners) {
      try {
        listener(change);
      } catch (error) {
        this.#onListenerError(error);
      }
    }
  }
}

/** Whether an object is in a namespace, or is that namespace. */
function isIn(namespace: string, { metadata }: KubeObject): boolean {
  const key = keyOf(metadata);
  return key === namespace || key.startsWith(`${namespace}/`);
}

const mostRetiredUids = 10_000;

interface Index<T> {
  valuesOf: IndexFunction<T>;
  objects: Map<string, Set<T>>;
}

function addToIndex<T>(index: Index<T>, object: T): void {
  for (const value of index.valuesOf(object)) {
    const objects = index.objects.get(value);
    if (objects === undefined) index.objects.set(value, new Set([object]));
    else objects.add(object);
  }
}

function removeFromIndex<T>(index: Index<T>, object: T): void {
  for (const value of index.valuesOf(object)) {
    const objects = index.objects.get(value);
    objects?.delete(object);
    if (objects?.size === 0) index.objects.delete(value);
  }
}
