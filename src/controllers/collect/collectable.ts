import type { Informers } from "../common/resources.ts";
import type { CollectionState, Garbage } from "./garbage.ts";

type Kept = Exclude<keyof CollectionState, "stepCacheBytes">;

/** The resources that a collection reads and deletes from. */
export type Collectable = { [Kind in Kept]: Pick<Informers[Kind]["resource"], "list" | "delete"> };

export interface ReadOptions {
  /** @default all */
  namespace?: string | undefined;
  stepCacheBytes: number;
  signal: AbortSignal;
}

/**
 * Reads all objects from the API server. Owned objects are listed before objects that can own or name them, so an owner that
 * existed when an object was listed is in a later list or deleted.
 */
export async function readCollection(
  from: Collectable,
  { namespace, stepCacheBytes, signal }: ReadOptions,
): Promise<CollectionState> {
  const options = { namespace, signal };
  const { items: templates } = await from.templates.list(options);
  const { items: checkpoints } = await from.checkpoints.list(options);
  const [snapshots, sandboxes, sets, claims] = await Promise.all([
    from.snapshots.list(options),
    from.sandboxes.list(options),
    from.sets.list(options),
    from.claims.list(options),
  ]);
  return {
    templates,
    checkpoints,
    stepCacheBytes,
    snapshots: snapshots.items,
    sandboxes: sandboxes.items,
    sets: sets.items,
    claims: claims.items,
  };
}

/**
 * Deletes one object if it has not changed since the plan. Its controller removes its data. Resolves to false if it does not exist.
 * @throws RametError `Conflict` if it has changed
 */
export async function collect(from: Collectable, garbage: Garbage, signal: AbortSignal): Promise<boolean> {
  const { kind, uid, resourceVersion } = garbage;
  const resource = { Checkpoint: from.checkpoints, SandboxTemplate: from.templates, SandboxClaim: from.claims }[kind];
  return resource.delete(garbage, { uid, resourceVersion, propagationPolicy: "Background", signal });
}
