import type { Checkpoint } from "../api/kinds/checkpoint.ts";
import type { NamedSnapshot } from "../api/kinds/named-snapshot.ts";
import type { SandboxSet } from "../api/kinds/sandbox-set.ts";
import type { Sandbox } from "../api/kinds/sandbox.ts";
import { RametError } from "../base/errors.ts";
import type { KubeManifest, KubeObject } from "../kube/object.ts";

/**
 * How operations write and follow objects. Servers follow them in the cache of an informer, and the command line by a watch of each
 * object, with progress lines.
 */
export interface Objects {
  sandboxes: Followed<Sandbox>;
  checkpoints: Followed<Checkpoint>;
  snapshots: Followed<NamedSnapshot>;
}

/** The part of a kind's objects that a wait needs. */
export interface Watched<T extends KubeObject> {
  /**
   * Resolves with the first result of `until` that is not undefined, now or after a change of the object.
   * @throws RametError `Timeout` and `Canceled`, which name the last state; what `until` throws
   */
  follow: <R>(written: T, following: Following<T, R>) => Promise<R>;
}

export interface Followed<T extends KubeObject> extends Watched<T> {
  create: (manifest: KubeManifest, signal?: AbortSignal) => Promise<T>;
  /** A merge patch of this object, never of a later one with its name. */
  patch: (object: T, change: Change, signal?: AbortSignal) => Promise<T>;
  /** Deletes this object, never a later one with its name. Resolves to whether it existed. */
  remove: (object: T, signal?: AbortSignal) => Promise<boolean>;
}

/** With the sets, for whose stock the command line and Pulumi wait. */
export interface AwaitedObjects extends Objects {
  sets: Followed<SandboxSet>;
}

/** With a resource version, a patch fails with `Conflict` if another change came first. */
export interface Change {
  metadata?: { annotations?: Record<string, string | null>; resourceVersion?: string };
  spec?: object;
}

export interface Wait {
  /** Infinity: no limit. */
  timeoutMilliseconds: number;
  signal: AbortSignal;
}

export interface Following<T, R> extends Wait {
  /** The awaited object, such as `the sandbox a`. */
  what: string;
  /** Called with undefined after the object was deleted, and with the milliseconds since the start of the wait. */
  until: (object: T | undefined, waitedMilliseconds: number) => R | undefined;
  /** How often `until` is called again even if nothing has changed. @default never */
  requeueAfterMilliseconds?: number;
  /** The state in a few words, for progress and errors. */
  describe: (object: T | undefined) => string;
}

/** The result of a wait that has ended: the object in the requested state, or why it cannot reach it. */
export type Settled<T> = { object: T } | { failure: RametError };

/** @throws RametError the failure */
export function objectOf<T>(settled: Settled<T>): T {
  if ("failure" in settled) throw settled.failure;
  return settled.object;
}

/** Whether only a wait has ended. What it has waited for can still happen. */
export function hasWaitEnded(error: unknown): boolean {
  return ["Canceled", "Timeout"].includes(RametError.from(error).code);
}

/** The same objects, whose states are reported while an operation follows them. */
export function observed<T extends KubeObject>(watched: Watched<T>, report: (object: T) => void): Watched<T> {
  return {
    follow: (written, following) =>
      watched.follow(written, {
        ...following,
        until: (object, waited) => {
          if (object !== undefined) report(object);
          return following.until(object, waited);
        },
      }),
  };
}
