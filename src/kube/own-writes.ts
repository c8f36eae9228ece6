import type { Informer } from "./informer.ts";
import type { KubeObject } from "./object.ts";

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
