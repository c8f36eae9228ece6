import type { Clock } from "./clock.ts";
import type { Informer } from "./informer.ts";
import type { KubeObject } from "./object.ts";

/**
 * Objects as this process has just written them, until the informer shows them: a decision made from what was there before
 * one's own write would do it again. Resource versions are compared for equality only.
 */
export class OwnWrites<T extends KubeObject> {
  readonly #clock: Clock;
  readonly #informer: Pick<Informer<T>, "store">;
  readonly #unseen = new Map<string, { object: T; at: number }>();
  /** Of writes that are under way, the versions that the informer has shown meanwhile: it may be faster than the answer. */
  readonly #underWay = new Set<{ uid: string; shown: Set<string> }>();

  /** Answers that were taken account of: whoever had nothing to write answers one of them again. */
  readonly #taken = new WeakSet<T>();

  constructor(informer: Pick<Informer<T>, "store">, clock: Clock) {
    this.#informer = informer;
    this.#clock = clock;
    informer.store.subscribe(({ type, object }) => {
      const { uid, resourceVersion } = object.metadata;
      for (const write of this.#underWay) if (write.uid === uid) write.shown.add(resourceVersion);
      const unseen = this.#unseen.get(uid);
      if (type === "deleted" || unseen?.object.metadata.resourceVersion === resourceVersion) this.#unseen.delete(uid);
    });
  }

  /** The newer of what the informer has and what was written last. */
  latest(cached: T): T {
    const { uid } = cached.metadata;
    const unseen = this.#unseen.get(uid);
    if (unseen === undefined) return cached;
    if (this.#clock.monotonicMilliseconds() - unseen.at < trustedMilliseconds) return unseen.object;
    // The informer has listed anew and never saw that version.
    this.#unseen.delete(uid);
    return cached;
  }

  /** Does the write, which answers the object as it is then; `base` itself if there was nothing to write. */
  async write(base: T, write: () => Promise<T>): Promise<T> {
    const { uid } = base.metadata;
    const underWay = { uid, shown: new Set<string>() };
    this.#underWay.add(underWay);
    try {
      const object = await write();
      if (object === base || this.#taken.has(object)) return object;
      this.#taken.add(object);
      const { resourceVersion } = object.metadata;
      const present = this.#informer.store.byUid(uid);
      const isShown = underWay.shown.has(resourceVersion) || present?.metadata.resourceVersion === resourceVersion;
      if (present !== undefined && !isShown) {
        this.#unseen.set(uid, { object, at: this.#clock.monotonicMilliseconds() });
      }
      return object;
    } finally {
      this.#underWay.delete(underWay);
    }
  }
}

const trustedMilliseconds = 5_000;
