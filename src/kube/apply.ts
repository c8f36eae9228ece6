import type { KubeManifest, KubeObject } from "./object.ts";
import type { CallOptions, ResourceClient } from "./resource-client.ts";
import { RametError, unlessCode } from "../base/errors.ts";

export interface ApplyUnlessOptions<T> extends CallOptions {
  /** The object from an informer. If it already has all the fields, nothing is written. */
  known?: T | undefined;
  /** Take over fields that another manager owns. Only for fields that this controller owns by design. @default false */
  force?: boolean;
}

/** Server-side apply with the field manager of one controller. */
export class Applier {
  readonly fieldManager: string;

  constructor(fieldManager: string) {
    this.fieldManager = fieldManager;
  }

  /**
   * Applies the fields of an object, and creates it if it does not exist. With `known`, a field that was applied earlier and is
   * now omitted is not removed while all others match: omit `known` if fields may be removed.
   *
   * @throws RametError `Conflict` with the field and its manager, if another manager owns a field and `force` is not set
   */
  async apply<T extends KubeObject>(
    resource: ResourceClient<T>,
    desired: KubeManifest,
    { known, force, signal }: ApplyUnlessOptions<T> = {},
  ): Promise<T> {
    if (known !== undefined && covers(known, desired)) return known;
    return resource.apply(desired, { fieldManager: this.fieldManager, force: force ?? false, signal });
  }
}

/** Whether `actual` has all fields of `desired`. The API server may have added defaults. Lists are compared by position. */
export function covers(actual: unknown, desired: unknown): boolean {
  if (desired === undefined) return true;
  if (typeof desired !== "object" || desired === null) return actual === desired;
  if (typeof actual !== "object" || actual === null) return false;
  if (Array.isArray(desired)) {
    return (
      Array.isArray(actual) && actual.length === desired.length && desired.every((item, at) => covers(actual[at], item))
    );
  }
  const fields = new Map<string, unknown>(Object.entries(actual));
  return Object.entries(desired).every(([field, value]) => covers(fields.get(field), value));
}

/**
 * Calls `attempt` again while it throws `Conflict`, because somebody else has changed the object since it was read. Each further attempt
 * must read the object again. Nothing but the write may throw `Conflict`.
 *
 * @param attempt receives its number, from 1
 * @throws RametError the error of `attempt`: immediately unless it is `Conflict`, otherwise from the last attempt
 */
export async function retryConflicts<T>(attempt: (number: number) => Promise<T>, mostAttempts = 10): Promise<T> {
  for (let number = 1; ; number++) {
    try {
      return await attempt(number);
    } catch (error) {
      if (RametError.from(error).code !== "Conflict" || number >= mostAttempts) throw error;
    }
  }
}

/** Creates an object, unless one of its name exists. */
export async function createUnlessExists(resource: ResourceClient<KubeObject>, manifest: KubeManifest): Promise<void> {
  await resource.create(manifest).catch(unlessCode("AlreadyExists"));
}
