import type { Sandbox } from "../api/kinds/sandbox.ts";
import { annotations, labels } from "../api/names/labels.ts";
import { canceled } from "../base/clock.ts";
import { isConditionTrue } from "../kube/conditions.ts";
import type { ObjectStore } from "../kube/store.ts";

export interface StockOptions {
  /** Sandboxes as an informer has them; it may lag. */
  store: ObjectStore<Sandbox>;
  /** A newer version than the informer's, if this process has written one. @default none */
  latest?: (cached: Sandbox) => Sandbox;
  /** The newest revision of a set, by `namespace/name`. */
  revisionOf: (setKey: string) => string | undefined;
  /** From 0 to below 1. */
  random: () => number;
}

/**
 * What can be claimed, by set. A version of a sandbox is given out once in a process: whether the claim of it came to
 * something or not, only a later version can be worth another try.
 */
export class Stock {
  readonly #options: StockOptions;
  readonly #candidates: (setKey: string) => Sandbox[];
  readonly #byLock: (lock: string) => Sandbox[];
  /** By UID, the version that was given out. Goes as soon as the store shows another one. */
  readonly #given = new Map<string, string>();
  /** By set, who waits for more, in order. */
  readonly #waiting = new Map<string, Set<() => void>>();
  readonly close: () => void;

  constructor(options: StockOptions) {
    this.#options = options;
    const { store } = options;
    this.#candidates = store.index((sandbox) => {
      const key = stockKey(sandbox);
      return key === undefined ? [] : [key];
    });
    this.#byLock = store.index(({ metadata }) => {
      const lock = metadata.annotations?.[annotations.lock];
      return lock === undefined ? [] : [lock];
    });
    this.close = store.subscribe(({ type, object }) => {
      const { uid, resourceVersion } = object.metadata;
      if (type === "deleted" || this.#given.get(uid) !== resourceVersion) this.#given.delete(uid);
      const key = type === "deleted" ? undefined : stockKey(object);
      if (key !== undefined) this.#wake(key);
    });
  }

  /** The best candidate of a set, which nobody else in this process gets in this version. */
  take(setKey: string): Sandbox | undefined {
    const { revisionOf, random } = this.#options;
    const [best] = orderCandidates(this.#free(setKey), revisionOf(setKey), random());
    if (best !== undefined) this.#given.set(best.metadata.uid, best.metadata.resourceVersion);
    return best;
  }

  /** Nothing was sent, so the version is as good as before. */
  giveBack({ metadata }: Sandbox): void {
    if (this.#given.get(metadata.uid) !== metadata.resourceVersion) return;
    this.#given.delete(metadata.uid);
  }

  /** Has the next in line look: for one who was called and takes nothing. */
  passOn(setKey: string): void {
    if (this.#waiting.has(setKey) && this.#free(setKey).length > 0) this.#wake(setKey);
  }

  /** The sandbox that bears this lock, as far as the informer knows. */
  heldBy(namespace: string, lock: string): Sandbox | undefined {
    return this.#byLock(lock).find(({ metadata }) => metadata.namespace === namespace);
  }

  /** Resolves when there may be something to take; of those who wait, each change calls the first. @throws RametError `Canceled` */
  untilMore(setKey: string, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const line = this.#waiting.get(setKey) ?? new Set();
      this.#waiting.set(setKey, line);
      const leave = (): void => {
        line.delete(wake);
        if (line.size === 0 && this.#waiting.get(setKey) === line) this.#waiting.delete(setKey);
        signal.removeEventListener("abort", onAbort);
      };
      const wake = (): void => {
        leave();
        resolve();
      };
      const onAbort = (): void => {
        leave();
        reject(canceled(`Waiting for a ready sandbox of ${setKey}`, signal));
      };
      line.add(wake);
      signal.addEventListener("abort", onAbort, { once: true });
      if (signal.aborted) onAbort();
      else if (this.#free(setKey).length > 0) wake();
    });
  }

  #free(setKey: string): Sandbox[] {
    const { latest = (cached: Sandbox) => cached } = this.#options;
    return this.#candidates(setKey).flatMap((cached) => {
      const { uid } = cached.metadata;
      const known = latest(cached);
      if (this.#given.get(uid) === known.metadata.resourceVersion) return [];
      return known === cached || stockKey(known) === setKey ? [known] : [];
    });
  }

  #wake(setKey: string): void {
    const [first] = this.#waiting.get(setKey) ?? [];
    first?.();
  }
}

/**
 * The set whose stock a sandbox is, as `namespace/name`; undefined of one that nobody can claim now. Only what a set owns is
 * stock: labels alone are anybody's to write.
 */
function stockKey(sandbox: Sandbox): string | undefined {
  const { metadata } = sandbox;
  const set = metadata.labels?.[labels.sandboxPool];
  const isOwned = metadata.ownerReferences?.some(({ kind, name }) => kind === "SandboxSet" && name === set);
  if (set === undefined || isOwned !== true) return undefined;
  return isFree(sandbox) && isReady(sandbox) ? `${metadata.namespace}/${set}` : undefined;
}

function isFree({ metadata }: Sandbox): boolean {
  if (metadata.deletionTimestamp !== undefined) return false;
  return metadata.labels?.[labels.sandboxClaimed] === "false" && metadata.annotations?.[annotations.lock] === undefined;
}

function isReady({ spec, status }: Sandbox): boolean {
  return status?.phase === "Running" && spec.paused !== true && isConditionTrue(status.conditions, "Ready");
}

/**
 * The order in which candidates are tried. Those of the set's newest revision first, and of them those of the highest
 * priority; equals are a ring, walked from a place that `start` gives, so that claimers who know nothing of each other seldom
 * meet.
 * @param start from 0 to below 1
 */
export function orderCandidates(
  candidates: readonly Sandbox[],
  newestRevision: string | undefined,
  start: number,
): Sandbox[] {
  const groups = Map.groupBy(candidates, (sandbox) => rank(sandbox, newestRevision));
  return [...groups.entries()]
    .toSorted(([a], [b]) => b - a)
    .flatMap(([, equals]) => {
      const first = Math.floor(start * equals.length);
      return [...equals.slice(first), ...equals.slice(0, first)];
    });
}

/** Higher goes first. Any priority that an int32 holds stays below what the revision counts. */
function rank({ metadata }: Sandbox, newestRevision: string | undefined): number {
  const isNewest = newestRevision !== undefined && metadata.labels?.[labels.templateHash] === newestRevision;
  const priority = Number(metadata.annotations?.[annotations.sandboxPriority] ?? 0);
  return (
    (isNewest ? 2 ** 33 : 0) + (Number.isInteger(priority) ? Math.max(-(2 ** 31), Math.min(priority, 2 ** 31)) : 0)
  );
}
