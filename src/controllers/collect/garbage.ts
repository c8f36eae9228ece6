import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import type { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import type { SandboxClaim } from "../../api/kinds/sandbox-claim.ts";
import type { SandboxSet } from "../../api/kinds/sandbox-set.ts";
import type { SandboxTemplate } from "../../api/kinds/sandbox-template.ts";

/** All that a collection is planned from: the objects of one namespace or of all. */
export interface CollectionState {
  templates: readonly SandboxTemplate[];
  checkpoints: readonly Checkpoint[];
  sandboxes: readonly Sandbox[];
  sets: readonly SandboxSet[];
  snapshots: readonly NamedSnapshot[];
  claims: readonly SandboxClaim[];
  /** What the captured steps of one namespace may take before those that no recipe has are removed. */
  stepCacheBytes: number;
}

/**
 * `StepCache`: the captured end of a step that no recipe has any more, beyond the budget. `UnusedTemplate`: a set has written
 * it out and marked it. `OwnerGone`: what it belonged to was deleted. `TimeToLive`: its own controller deletes it at `dueAt`.
 */
export const garbageKinds = ["StepCache", "UnusedTemplate", "OwnerGone", "TimeToLive"] as const;
export type GarbageKind = (typeof garbageKinds)[number];

/** One object that goes, and why. */
export interface Garbage {
  garbage: GarbageKind;
  kind: "Checkpoint" | "SandboxTemplate" | "SandboxClaim";
  namespace: string;
  name: string;
  uid: string;
  /** The object is deleted only as it was when this was decided. */
  resourceVersion: string;
  /** For people: one sentence without a full stop. */
  why: string;
  /** Of a Checkpoint, as it was captured. Less is freed where another one has the same content. */
  bytes?: number;
  /** RFC 3339. Only for `TimeToLive`: the collector leaves it to the object's own controller. */
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
  return { ...details, namespace, name, uid, resourceVersion, ...(bytes !== undefined && { bytes }) };
}
