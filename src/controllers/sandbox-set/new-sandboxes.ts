import type { Sandbox } from "../../api/kinds/sandbox.ts";
import type { Clock } from "../../base/clock.ts";
import type { Informer } from "../../kube/informer.ts";

/** A sandbox that was asked for, and that the informer has not shown yet. */
export interface NewSandbox {
  namespace: string;
  name: string;
  revisionHash: string;
  /** Undefined: the answer was lost, so it may be there or not. */
  uid: string | undefined;
  atMilliseconds: number;
}

/**
 * What this process has made and deleted and its cache may not show yet, by the set's UID: a set that did not count it
 * would make or delete the same again. It is gone with the process; the next one begins with a list of all there is.
 */
export class NewSandboxes {
  readonly #clock: Clock;
  readonly #sandboxes: Pick<Informer<Sandbox>, "store">;
  readonly #made = new Map<string, Map<string, NewSandbox>>();
  /** UIDs of sandboxes whose deletion was asked for, and when. */
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

  /** Before it is asked for: who asks may never hear the answer. */
  requested(setUid: string, sandbox: Pick<NewSandbox, "namespace" | "name" | "revisionHash">): void {
    const made = this.#made.get(setUid) ?? new Map<string, NewSandbox>();
    this.#made.set(setUid, made);
    made.set(sandbox.name, { ...sandbox, uid: undefined, atMilliseconds: this.#clock.monotonicMilliseconds() });
  }

  /** It is there. The informer may have shown it before the answer came. */
  created(setUid: string, { metadata: { name, uid } }: Sandbox): void {
    const made = this.#made.get(setUid)?.get(name);
    if (made === undefined) return;
    if (this.#sandboxes.store.byUid(uid) !== undefined) this.removed(setUid, name);
    else this.#made.get(setUid)?.set(name, { ...made, uid, atMilliseconds: this.#clock.monotonicMilliseconds() });
  }

  /** It is not there, or it is known. */
  removed(setUid: string, name: string): void {
    this.#made.get(setUid)?.delete(name);
  }

  of(setUid: string): NewSandbox[] {
    return [...(this.#made.get(setUid)?.values() ?? [])];
  }

  /** Those that should have been shown by now: somebody has to ask the API server. */
  overdue(setUid: string): NewSandbox[] {
    const now = this.#clock.monotonicMilliseconds();
    return this.of(setUid).filter(({ atMilliseconds }) => now - atMilliseconds >= overdueMilliseconds);
  }

  deleting(uid: string): void {
    if (this.#sandboxes.store.byUid(uid) === undefined) return;
    this.#leaving.set(uid, this.#clock.monotonicMilliseconds());
  }

  /** After a while it is taken as not asked for: to delete it again does no harm. */
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

/** An informer shows a write within some milliseconds. */
export const overdueMilliseconds = 5_000;
