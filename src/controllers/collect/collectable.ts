import type { Informers } from "../common/resources.ts";
import type { CollectionState, Garbage } from "./garbage.ts";

type Kept = Exclude<keyof CollectionState, "stepCacheBytes">;

/** The kinds that a collection reads, as the API server has them. */
export type Collectable = { [Kind in Kept]: Pick<Informers[Kind]["resource"], "list" | "delete"> };

export interface ReadOptions {
  /** @default all */
  namespace?: string | undefined;
  stepCacheBytes: number;
  signal: AbortSignal;
}

/**
 * What there is, from the API server. Owned objects are listed before what can own or name them: an owner or a referrer that
 * was there when an object was listed is in a later list, or gone.
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
 * Deletes one object, if it is still as it was when this was decided. Its data goes by its controller. Answers whether there
 * was something to delete.
 * @throws RametError `Conflict` if it has changed
 */
export async function collect(from: Collectable, garbage: Garbage, signal: AbortSignal): Promise<boolean> {
  const { kind, uid, resourceVersion } = garbage;
  const resource = { Checkpoint: from.checkpoints, SandboxTemplate: from.templates, SandboxClaim: from.claims }[kind];
  return resource.delete(garbage, { uid, resourceVersion, propagationPolicy: "Background", signal });
}
