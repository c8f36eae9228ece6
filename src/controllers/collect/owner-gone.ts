import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import type { SandboxTemplate } from "../../api/kinds/sandbox-template.ts";
import { garbageOf, type CollectionState, type Garbage } from "./garbage.ts";
import type { References } from "./references.ts";

/**
 * Checkpoints and templates whose owners are gone. Kubernetes' garbage collector does the same where there is one; what
 * belongs to a kind that is not Ramet's is left to it.
 */
export function ownerGone(state: CollectionState, references: References): Garbage[] {
  const owners = {
    Sandbox: uidsOf(state.sandboxes),
    NamedSnapshot: uidsOf(state.snapshots),
    SandboxSet: uidsOf(state.sets),
    Checkpoint: uidsOf(state.checkpoints),
  };
  const isLeft = ({ metadata }: Checkpoint | SandboxTemplate): boolean => {
    const { ownerReferences = [], deletionTimestamp } = metadata;
    const areGone = ownerReferences.every(({ kind, uid }) => isOwnerKind(kind) && !owners[kind].has(uid));
    return deletionTimestamp === undefined && ownerReferences.length > 0 && areGone;
  };
  const isOwnerKind = (kind: string): kind is keyof typeof owners => Object.hasOwn(owners, kind);
  return [
    ...state.checkpoints
      .filter((checkpoint) => isLeft(checkpoint) && !references.hasCheckpoint(checkpoint))
      .map((checkpoint) => garbageOf(checkpoint, { garbage: "OwnerGone", kind: "Checkpoint", why: why(checkpoint) })),
    ...state.templates
      .filter((template) => isLeft(template) && !references.hasTemplate(template))
      .map((template) => garbageOf(template, { garbage: "OwnerGone", kind: "SandboxTemplate", why: why(template) })),
  ];
}

function why({ metadata }: Checkpoint | SandboxTemplate): string {
  const owners = (metadata.ownerReferences ?? []).map(({ kind, name }) => `${kind} ${name}`);
  return `belonged to ${owners.join(", ")}, which no longer exists`;
}

function uidsOf(objects: readonly { metadata: { uid: string } }[]): Set<string> {
  return new Set(objects.map(({ metadata }) => metadata.uid));
}
