import type { Informer } from "./informer.ts";
import type { KubeObject } from "./object.ts";

/**
 * Objects as this process has just written them, until the informer shows them: a decision made from what was there before
 * one's own write would do it again. Resource versions are compared for equality only.
 *
 * A watch shows every version, so what is remembered is always the newer. A list shows only what is there when it is made:
 * it may have passed a version by, and then nothing would ever tell that there is something newer than what was written.
 * So a list ends what is remembered; should it be the older, the watch that follows it shows what was written.
 */
export class OwnWrites<T extends KubeObject> {
  readonly #informer: Pick<Informer<T>, "store">;
  readonly #unseen = new Map<string, { object: T; lists: number }>();
  /** Of writes that are under way, the versions that the informer has shown meanwhile: it may be faster than the answer. */
  readonly #underWay = new Set<{ uid: string; shown: Set<string> }>();
  /** By UID, the version that was written and then looked at once more: there is nothing to do about it. */
  readonly #settled = new Map<string, string>();
  /** Answers that were taken account of: whoever had nothing to write answers one of them again. */
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

  /** The newer of what the informer has and what was written last. */
  latest(cached: T): T {
    const { uid } = cached.metadata;
    const unseen = this.#unseen.get(uid);
    if (unseen === undefined) return cached;
    if (unseen.lists === this.#informer.store.lists) return unseen.object;
    this.#unseen.delete(uid);
    return cached;
  }

  /** Says that this version, as this process has written it, has been looked at: when the informer shows it, that is no news. */
  settle({ metadata: { uid, resourceVersion } }: T): void {
    if (this.#informer.store.byUid(uid) !== undefined) this.#settled.set(uid, resourceVersion);
  }

  isSettled({ metadata: { uid, resourceVersion } }: T): boolean {
    return this.#settled.get(uid) === resourceVersion;
  }

  /** Does the write, which answers the object as it is then; `base` itself if there was nothing to write. */
  async write(base: T, write: () => Promise<T>): Promise<T> {
    const { store } = this.#informer;
    const { lists } = store;
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
