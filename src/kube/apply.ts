import type { KubeManifest, KubeObject } from "./object.ts";
import type { CallOptions, ResourceClient } from "./resource-client.ts";

export interface ApplyUnlessOptions<T> extends CallOptions {
  /** The object as an informer has it: if it already has every field that is wanted, nothing is written. */
  known?: T | undefined;
  /** Take fields over that another manager owns; only for fields that are this controller's by design. @default false */
  force?: boolean;
}

/** Server-side apply in the name of one controller. */
export class Applier {
  readonly fieldManager: string;

  constructor(fieldManager: string) {
    this.fieldManager = fieldManager;
  }

  /**
   * Makes sure that an object exists and has these fields.
   *
   * With `known`, a field that was applied earlier and is left out now is not noticed as long as all others are right;
   * leave `known` out when fields may vanish.
   *
   * @throws RametError `Conflict`, naming field and manager, if somebody else owns a field and `force` is not set
   */
  async apply<T extends KubeObject>(
    resource: ResourceClient<T>,
    wanted: KubeManifest,
    { known, force, signal }: ApplyUnlessOptions<T> = {},
  ): Promise<T> {
    if (known !== undefined && covers(known, wanted)) return known;
    return resource.apply(wanted, { fieldManager: this.fieldManager, force: force ?? false, signal });
  }
}

/** Whether `actual` has all that `wanted` has; the API server may have added defaults. Lists are compared by position. */
export function covers(actual: unknown, wanted: unknown): boolean {
  if (wanted === undefined) return true;
  if (typeof wanted !== "object" || wanted === null) return actual === wanted;
  if (typeof actual !== "object" || actual === null) return false;
  if (Array.isArray(wanted)) {
    return (
      Array.isArray(actual) && actual.length === wanted.length && wanted.every((item, at) => covers(actual[at], item))
    );
  }
  const fields = new Map<string, unknown>(Object.entries(actual));
  return Object.entries(wanted).every(([field, value]) => covers(fields.get(field), value));
}
