import { canceled, type Clock, unlessAborted } from "../base/clock.ts";
import { RametError } from "../base/errors.ts";
import { within } from "../base/within.ts";
import type { KubeObject } from "./object.ts";
import type { ObjectStore } from "./store.ts";

export interface FollowOptions {
  /** The awaited object, as the subject of errors: `Waiting for the sandbox a`. */
  what: string;
  timeoutMilliseconds: number;
  /** How often to check even if nothing has changed. @default never */
  requeueAfterMilliseconds?: number;
  signal: AbortSignal;
}

/**
 * Waits for changes of single objects, as an informer reports them. One subscription serves all waits of a process.
 */
export class Followers<T extends KubeObject> {
  readonly #store: ObjectStore<T>;
  readonly #latest: (cached: T) => T;
  readonly #clock: Clock;
  /** By UID. */
  readonly #waiting = new Map<string, Set<() => void>>();
  readonly close: () => void;

  /** @param latest the version that this process has written, if it is newer than the informer's. Default: the informer's */
  constructor(store: ObjectStore<T>, clock: Clock, latest: (cached: T) => T = (cached) => cached) {
    this.#store = store;
    this.#latest = latest;
    this.#clock = clock;
    this.close = store.subscribe(({ object }) => {
      for (const check of this.#waiting.get(object.metadata.uid) ?? []) check();
    });
  }

  /** The newest known version of an object. */
  current(uid: string): T | undefined {
    const cached = this.#store.byUid(uid);
    return cached && this.#latest(cached);
  }

  /**
   * Resolves with the first result of `until` that is not undefined, now or after a change. `until` is called with undefined
   * while the informer does not know the object, and after its deletion.
   * @throws RametError `Timeout`, `Canceled`; what `until` throws
   */
  async until<R>(uid: string, until: (object: T | undefined) => R | undefined, options: FollowOptions): Promise<R> {
    const { what, timeoutMilliseconds: milliseconds, requeueAfterMilliseconds = Infinity, signal } = options;
    const clock = this.#clock;
    if (signal.aborted) throw canceled(what, signal);
    const { promise, resolve, reject } = Promise.withResolvers<R>();
    const check = (): void => {
      try {
        const result = until(this.current(uid));
        if (result !== undefined) resolve(result);
      } catch (error) {
        reject(RametError.from(error));
      }
    };
    let cancelRequeue: () => void;
    const requeue = (): void => {
      cancelRequeue = clock.schedule(requeueAfterMilliseconds, () => {
        check();
        requeue();
      });
    };
    const checks = this.#waiting.get(uid) ?? new Set();
    this.#waiting.set(uid, checks.add(check));
    check();
    requeue();
    return within({ clock, milliseconds, what, signal }, (either) =>
      unlessAborted(promise, either, () => canceled(what, signal)),
    ).finally(() => {
      cancelRequeue();
      checks.delete(check);
      if (checks.size === 0) this.#waiting.delete(uid);
    });
  }
}

/**
 * Resolves with the first result of `find` that is not undefined, now or after a change in one of the stores; with undefined if there is
 * none in time.
 */
export function untilFound<R>(
  stores: readonly Pick<ObjectStore<KubeObject>, "subscribe">[],
  find: () => R | undefined,
  { clock, milliseconds }: { clock: Clock; milliseconds: number },
): Promise<R | undefined> {
  const { promise, resolve, reject } = Promise.withResolvers<R | undefined>();
  const check = (): void => {
    try {
      const found = find();
      if (found !== undefined) resolve(found);
    } catch (error) {
      reject(RametError.from(error));
    }
  };
  const unsubscribes = stores.map((store) => store.subscribe(check));
  const cancel = clock.schedule(milliseconds, () => {
    resolve(undefined);
  });
  check();
  return promise.finally(() => {
    cancel();
    for (const unsubscribe of unsubscribes) unsubscribe();
  });
}
