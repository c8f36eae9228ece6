import { isServing } from "../../api/state/sandbox.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { annotations, labels } from "../../api/names/labels.ts";
import { canceled } from "../../base/clock.ts";
import type { ObjectStore } from "../../kube/store.ts";

export interface StockOptions {
  /** The informer's sandboxes, which may be outdated. */
  store: ObjectStore<Sandbox>;
  /** The version that this process has written, if it is newer than the informer's. @default none */
  latest?: (cached: Sandbox) => Sandbox;
  /** The current revision of a set, by `namespace/name`. */
  revisionOf: (setKey: string) => string | undefined;
}

/** More claims are not written between two events of a watch. */
const mostTaking = 10_000;

/**
 * The claimable sandboxes of each set. Each version of a sandbox is handed out once per process: whether that claim succeeded
 * or failed, only a later version is worth another attempt.
 */
export class Stock {
  readonly #options: StockOptions;
  readonly #candidates: (setKey: string) => Sandbox[];
  readonly #byLock: (lock: string) => Sandbox[];
  /** By UID, the version that was handed out, until the store has another one. */
  readonly #given = new Map<string, string>();
  /** By namespace and lock, the claims of this process that the informer does not show yet. */
  readonly #taking = new Map<string, Promise<Sandbox | undefined>>();
  /** By set, the waiting claimers in order. */
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
      const lock = object.metadata.annotations?.[annotations.lock];
      if (lock !== undefined) this.#taking.delete(`${object.metadata.namespace}/${lock}`);
      const key = type === "deleted" ? undefined : stockKey(object);
      if (key !== undefined) this.#wake(key);
    });
  }

  /**
   * Hands out the best candidate of a set for a lock. No other caller in this process gets the same version.
   * @param fits which sandboxes to prefer. Default: all fit
   * @param onlyFitting whether others are not handed out
   */
  take(
    { setKey, lock }: { setKey: string; lock: string },
    fits: (sandbox: Sandbox) => boolean = () => true,
    onlyFitting = false,
  ): Sandbox | undefined {
    const { revisionOf } = this.#options;
    const free = this.#free(setKey);
    const fitting = free.filter(fits);
    const [best] = orderCandidates(onlyFitting || fitting.length > 0 ? fitting : free, revisionOf(setKey), lock);
    if (best !== undefined) this.#given.set(best.metadata.uid, best.metadata.resourceVersion);
    return best;
  }

  /** How many candidates of a set `take` could hand out. */
  count(setKey: string, fits: (sandbox: Sandbox) => boolean = () => true): number {
    return this.#free(setKey).filter(fits).length;
  }

  /** Makes a version available again, because nothing was sent. */
  giveBack({ metadata }: Sandbox): void {
    if (this.#given.get(metadata.uid) !== metadata.resourceVersion) return;
    this.#given.delete(metadata.uid);
  }

  /** Wakes the next waiter if the woken one takes nothing. */
  passOn(setKey: string): void {
    if (this.#waiting.has(setKey) && this.#free(setKey).length > 0) this.#wake(setKey);
  }

  /** The sandbox with this lock: as far as the informer knows, or what a claim with it gets that this process makes. */
  heldBy(namespace: string, lock: string): Sandbox | Promise<Sandbox | undefined> | undefined {
    const shown = this.#byLock(lock).find(
      ({ metadata }) => metadata.namespace === namespace && metadata.deletionTimestamp === undefined,
    );
    return shown ?? this.#taking.get(`${namespace}/${lock}`);
  }

  /** Notes a claim with this lock until it has failed, or the informer shows the sandbox. */
  async noted(
    { namespace, lock }: { namespace: string; lock: string },
    taken: Promise<Sandbox | undefined>,
  ): Promise<Sandbox | undefined> {
    const key = `${namespace}/${lock}`;
    this.#taking.set(
      key,
      taken.catch(() => undefined),
    );
    const sandbox = await taken.catch((error: unknown) => {
      this.#taking.delete(key);
      throw error;
    });
    if (sandbox === undefined || this.#isShown(sandbox, lock)) this.#taking.delete(key);
    for (const [oldest] of this.#taking) {
      if (this.#taking.size <= mostTaking) break;
      this.#taking.delete(oldest);
    }
    return sandbox;
  }

  #isShown({ metadata: { namespace, uid } }: Sandbox, lock: string): boolean {
    return this.#byLock(lock).some(({ metadata }) => metadata.namespace === namespace && metadata.uid === uid);
  }

  /** Resolves when a candidate may be available. Each change wakes the first waiter. @throws RametError `Canceled` */
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
 * The set whose stock contains the sandbox, as `namespace/name`; undefined if it cannot be claimed now. Only sandboxes that a set
 * owns are stock, because any user can write labels.
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

/** A sandbox that its user pauses serves until it is paused, but nobody else can claim it. */
function isReady(sandbox: Sandbox): boolean {
  return isServing(sandbox) && sandbox.spec.paused !== true;
}

/**
 * The order in which candidates are tried: the newest revision first, then the highest priority. Equal candidates are ordered by the lock
 * (rendezvous hashing): independent claimers rarely collide, and a repeat of a request finds the same one on each server.
 */
export function orderCandidates(
  candidates: readonly Sandbox[],
  newestRevision: string | undefined,
  lock: string,
): Sandbox[] {
  const seed = hashed(lock, 0x811c9dc5);
  const scored = candidates.map((sandbox) => ({
    sandbox,
    rank: rank(sandbox, newestRevision),
    score: mixed(hashed(sandbox.metadata.uid, seed)),
  }));
  return scored.toSorted((a, b) => b.rank - a.rank || b.score - a.score).map(({ sandbox }) => sandbox);
}

/** FNV-1a. Each claim computes it for all candidates, and nothing secret depends on it. */
function hashed(text: string, seed: number): number {
  let hash = seed;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return hash;
}

/** Similar hashes differ in each bit of their mixture (the last step of MurmurHash3). */
function mixed(value: number): number {
  let hash = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}

/** Higher goes first. The revision outweighs every int32 priority. */
function rank({ metadata }: Sandbox, newestRevision: string | undefined): number {
  const isNewest = newestRevision !== undefined && metadata.labels?.[labels.templateHash] === newestRevision;
  const priority = Number(metadata.annotations?.[annotations.sandboxPriority] ?? 0);
  return (
    (isNewest ? 2 ** 33 : 0) + (Number.isInteger(priority) ? Math.max(-(2 ** 31), Math.min(priority, 2 ** 31)) : 0)
  );
}
