import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import type { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import type { SandboxClaim } from "../../api/kinds/sandbox-claim.ts";
import type { SandboxSet } from "../../api/kinds/sandbox-set.ts";
import type { SandboxTemplate } from "../../api/kinds/sandbox-template.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { defined } from "../../base/defined.ts";
import type { Informers } from "../cluster/resources.ts";

/** The state from which a collection is planned: the objects of one namespace or of all. */
export interface CollectionState {
  templates: readonly SandboxTemplate[];
  checkpoints: readonly Checkpoint[];
  sandboxes: readonly Sandbox[];
  sets: readonly SandboxSet[];
  snapshots: readonly NamedSnapshot[];
  claims: readonly SandboxClaim[];
  /** Captured steps of one namespace above this size are deleted if no recipe has them. */
  stepCacheBytes: number;
  now: Date;
}

/**
 * `StepCache`: a captured step that no recipe has any more, above the budget. `UnusedTemplate`: a revision that its set has
 * marked as unneeded. `UnusedTree`: an uploaded directory tree that no recipe has. `UnnamedSource`: a capture for a version that was
 * never requested. `OwnerGone`: its owner was deleted. `TimeToLive`: its own controller deletes it at `dueAt`.
 */
export const garbageKinds = [
  "StepCache",
  "UnusedTemplate",
  "UnusedTree",
  "UnnamedSource",
  "OwnerGone",
  "TimeToLive",
] as const;
export type GarbageKind = (typeof garbageKinds)[number];

/** One object to delete, and why. */
export interface Garbage {
  garbage: GarbageKind;
  kind: "Checkpoint" | "SandboxTemplate" | "SandboxClaim";
  namespace: string;
  name: string;
  uid: string;
  /** Guards the deletion against later changes of the object. */
  resourceVersion: string;
  /** Explanation for people, without a full stop. */
  why: string;
  /** Size of a Checkpoint when it was captured. Less is freed if another one shares its content. */
  bytes?: number;
  /** RFC 3339. Set for `TimeToLive` only, which the collector leaves to the object's controller. */
  dueAt?: string;
}

/** @default for `stepCacheBytes`: 20 GiB */
export const defaultStepCacheBytes = 20 * 1024 ** 3;

export function garbageOf(
  object: Checkpoint | SandboxTemplate | SandboxClaim,
  details: Pick<Garbage, "garbage" | "kind" | "why" | "dueAt">,
): Garbage {
  const { namespace, name, uid, resourceVersion } = object.metadata;
  const bytes = details.kind === "Checkpoint" ? (object as Checkpoint).status?.ramet?.sizeBytes : undefined;
  return { ...details, namespace, name, uid, resourceVersion, ...defined({ bytes }) };
}

type Kept = Exclude<keyof CollectionState, "stepCacheBytes" | "now">;

export type Collectable = { [Kind in Kept]: Pick<Informers[Kind]["resource"], "list" | "delete"> };

interface ReadOptions {
  /** @default all */
  namespace?: string | undefined;
  stepCacheBytes: number;
  now: Date;
  signal: AbortSignal;
}

/**
 * Reads all objects from the API server. Owned objects are listed before objects that can own or name them, so an owner that
 * existed when an object was listed is in a later list or deleted.
 */
export async function readCollection(
  from: Collectable,
  { namespace, stepCacheBytes, now, signal }: ReadOptions,
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
    now,
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
