import type { Sandbox } from "../../api/kinds/sandbox.ts";
import type { Clock } from "../../base/clock.ts";
import type { Informer } from "../../kube/informer.ts";

/** A requested sandbox that the informer does not show yet. */
export interface NewSandbox {
  namespace: string;
  name: string;
  revisionHash: string;
  /** Undefined: the response is missing, so it may exist or not. */
  uid: string | undefined;
  atMilliseconds: number;
}

/**
 * Sandboxes that this process has created or deleted and its cache may not show yet, by set UID. Without this record, a set would
 * create or delete too many. It need not survive a restart, which begins with a complete list.
 */
export class NewSandboxes {
  readonly #clock: Clock;
  readonly #sandboxes: Pick<Informer<Sandbox>, "store">;
  readonly #made = new Map<string, Map<string, NewSandbox>>();
  /** UIDs of deleted sandboxes, with the time of the request. */
  readonly #leaving = new Map<string, number>();

  constructor(sandboxes: Pick<Informer<Sandbox>, "store">, clock: Clock) {
    this.#clock = clock;
    this.#sandboxes = sandboxes;
    sandboxes.store.subscribe(({ type, object: { metadata } }) => {
      for (const made of this.#made.values()) {
        if (made.get(metadata.name)?.namespace === metadata.namespace) made.delete(metadata.name);
      }
      if (type === "deleted" || metadata.deletionTimestamp !== undefined) this.#leaving.delete(metadata.uid);
    });
  }

  /** Called before the request, whose response may be lost. */
  requested(setUid: string, sandbox: Pick<NewSandbox, "namespace" | "name" | "revisionHash">): void {
    const made = this.#made.get(setUid) ?? new Map<string, NewSandbox>();
    this.#made.set(setUid, made);
    made.set(sandbox.name, { ...sandbox, uid: undefined, atMilliseconds: this.#clock.monotonicMilliseconds() });
  }

  /** It exists. The informer may have shown it before the response arrived. */
  created(setUid: string, { metadata: { name, uid } }: Sandbox): void {
    const made = this.#made.get(setUid)?.get(name);
    if (made === undefined) return;
    if (this.#sandboxes.store.byUid(uid) !== undefined) this.removed(setUid, name);
    else this.#made.get(setUid)?.set(name, { ...made, uid, atMilliseconds: this.#clock.monotonicMilliseconds() });
  }

  /** It does not exist, or the cache shows it. */
  removed(setUid: string, name: string): void {
    this.#made.get(setUid)?.delete(name);
  }

  of(setUid: string): NewSandbox[] {
    return [...(this.#made.get(setUid)?.values() ?? [])];
  }

  /** Those that the cache should show by now; the API server must be asked. */
  overdue(setUid: string): NewSandbox[] {
    const now = this.#clock.monotonicMilliseconds();
    return this.of(setUid).filter(({ atMilliseconds }) => now - atMilliseconds >= overdueMilliseconds);
  }

  deleting(uid: string): void {
    if (this.#sandboxes.store.byUid(uid) === undefined) return;
    this.#leaving.set(uid, this.#clock.monotonicMilliseconds());
  }

  /** Expires after a while: a repeated deletion does no harm. */
  isLeaving(uid: string): boolean {
    const at = this.#leaving.get(uid);
    if (at === undefined) return false;
    if (this.#clock.monotonicMilliseconds() - at < overdueMilliseconds) return true;
    this.#leaving.delete(uid);
    return false;
  }

  forget(setUid: string): void {
    this.#made.delete(setUid);
  }
}

/** An informer usually shows a write within milliseconds. */
export const overdueMilliseconds = 5_000;
