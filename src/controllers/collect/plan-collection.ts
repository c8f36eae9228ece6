import { isCloneable } from "../../api/state/checkpoint.ts";
import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import type { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import type { SandboxTemplate } from "../../api/kinds/sandbox-template.ts";
import { layersInUse, Storage } from "../../api/state/storage.ts";
import { annotations, labels } from "../../api/names/labels.ts";
import { treePurpose } from "../../api/tree/tree-check.ts";
import { parseDuration } from "../../base/duration.ts";
import { controllerOf } from "../../kube/object.ts";
import { originReferences, templateOriginReferences } from "../origin/origin.ts";
import { type CollectionState, type Garbage, garbageOf } from "./garbage.ts";

/**
 * Plans which objects to delete, each once with the first reason that applies. Objects that a sandbox, a set or a named snapshot
 * refers to are not included, except with `dueAt`: their own controllers delete those after their time to live.
 */
export function planCollection(state: CollectionState): Garbage[] {
  const references = referencesOf(state);
  const orphans = ownerGone(state, references);
  const planned = new Set(orphans.map(({ uid }) => uid));
  const checkpoints = state.checkpoints.filter(({ metadata }) => !planned.has(metadata.uid));
  const all = [
    ...orphans,
    ...unneededStepCaches({ ...state, checkpoints }, references),
    ...unusedTemplates(state, references),
    ...unusedTrees({ ...state, checkpoints }, references),
    ...unnamedSources({ ...state, checkpoints }, references),
    ...timeToLive(state),
  ];
  return [...Map.groupBy(all, ({ uid }) => uid).values()].flatMap((reasons) => reasons.slice(0, 1));
}

/** Revisions that sets have written as SandboxTemplates and marked as unneeded. */
function unusedTemplates({ templates }: CollectionState, references: References): Garbage[] {
  return templates
    .filter(({ metadata }) => metadata.deletionTimestamp === undefined)
    .filter(({ metadata }) => metadata.annotations?.[annotations.cleanupCandidate] === "true")
    .filter((template) => controllerOf(template)?.kind === "SandboxSet" && !references.hasTemplate(template))
    .map((template) => {
      const why = `a former revision of the set ${controllerOf(template)?.name ?? ""} without sandboxes`;
      return garbageOf(template, { garbage: "UnusedTemplate", kind: "SandboxTemplate", why });
    });
}

/** Uploaded trees that no recipe has. A client uploads before it writes the recipe, so new ones are kept. */
function unusedTrees({ checkpoints, snapshots, now }: CollectionState, references: References): Garbage[] {
  const needed = new Set(
    snapshots.flatMap((one) =>
      inNamespace(
        one,
        one.spec.recipe.map(({ copy }) => copy?.tree),
      ),
    ),
  );
  return olderThan(86_400_000, { checkpoints, now })
    .filter(({ metadata }) => metadata.labels?.[labels.purpose] === treePurpose)
    .filter(({ metadata }) => !needed.has(`${metadata.namespace}/${metadata.annotations?.[annotations.tree] ?? ""}`))
    .filter((checkpoint) => !references.hasCheckpoint(checkpoint))
    .map((checkpoint) => {
      const why = "an uploaded directory tree that no recipe has";
      return garbageOf(checkpoint, { garbage: "UnusedTree", kind: "Checkpoint", why });
    });
}

/**
 * Captures for a version of a named snapshot whose request ended before the version was requested, for example with the process
 * that served it. A request takes less than an hour.
 */
function unnamedSources(state: CollectionState, references: References): Garbage[] {
  return olderThan(3_600_000, state)
    .filter(({ metadata }) => metadata.labels?.[labels.sourceOf] !== undefined)
    .filter((checkpoint) => !references.hasCheckpoint(checkpoint))
    .map((checkpoint) => {
      const why = `captured for a version of the snapshot ${checkpoint.metadata.labels?.[labels.sourceOf] ?? ""} that does not exist`;
      return garbageOf(checkpoint, { garbage: "UnnamedSource", kind: "Checkpoint", why });
    });
}

function olderThan(
  milliseconds: number,
  { checkpoints, now }: Pick<CollectionState, "checkpoints" | "now">,
): Checkpoint[] {
  const isOld = ({ metadata }: Checkpoint): boolean =>
    now.getTime() - Date.parse(metadata.creationTimestamp) > milliseconds;
  return checkpoints.filter((each) => each.metadata.deletionTimestamp === undefined && isOld(each));
}

/** Objects that their own controllers delete after their time to live: only reported. */
function timeToLive({ checkpoints, claims }: CollectionState): Garbage[] {
  const kept = [
    ...checkpoints.map((object) => ({ object, kind: "Checkpoint" as const, ttl: object.spec.ttlAfterFinished })),
    ...claims.map((object) => ({ object, kind: "SandboxClaim" as const, ttl: object.spec.ttlAfterCompleted })),
  ];
  return kept.flatMap(({ object, kind, ttl }) => {
    const dueAt = endOf(object.status?.completionTime, ttl);
    if (dueAt === undefined || object.metadata.deletionTimestamp !== undefined) return [];
    const why = `its time to live ends at ${dueAt}`;
    return [garbageOf(object, { garbage: "TimeToLive", kind, why, dueAt })];
  });
}

/** Undefined if the object has not ended, has no time to live, or has an invalid one, which its status reports. */
function endOf(completionTime: string | undefined, ttl: string | undefined): string | undefined {
  if (completionTime === undefined || ttl === undefined) return undefined;
  try {
    const milliseconds = parseDuration(ttl);
    return milliseconds < 0 ? undefined : new Date(Date.parse(completionTime) + milliseconds).toISOString();
  } catch {
    return undefined;
  }
}

/**
 * Checkpoints and templates whose owners were deleted. Kubernetes' garbage collector does the same if the cluster has one, and
 * alone handles owners of other kinds than Ramet's.
 */
function ownerGone(state: CollectionState, references: References): Garbage[] {
  const owners = {
    Sandbox: uidsOf(state.sandboxes),
    NamedSnapshot: uidsOf(state.snapshots),
    SandboxSet: uidsOf(state.sets),
    Checkpoint: uidsOf(state.checkpoints),
  };
  const isOrphan = ({ metadata }: Checkpoint | SandboxTemplate): boolean => {
    const { ownerReferences = [], deletionTimestamp } = metadata;
    const areDeleted = ownerReferences.every(({ kind, uid }) => isOwnerKind(kind) && !owners[kind].has(uid));
    return deletionTimestamp === undefined && ownerReferences.length > 0 && areDeleted;
  };
  const isOwnerKind = (kind: string): kind is keyof typeof owners => Object.hasOwn(owners, kind);
  return [
    ...state.checkpoints
      .filter((checkpoint) => isOrphan(checkpoint) && !references.hasCheckpoint(checkpoint))
      .map((checkpoint) => garbageOf(checkpoint, { garbage: "OwnerGone", kind: "Checkpoint", why: why(checkpoint) })),
    ...state.templates
      .filter((template) => isOrphan(template) && !references.hasTemplate(template))
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

/**
 * If what only the captured steps of a namespace hold exceeds the budget, those that no recipe has are deleted, longest unneeded first,
 * until the others fit. Those of current recipes count, but are kept. A layer that a version or a running sandbox has too does not
 * count, as no deletion of a step frees it.
 */
function unneededStepCaches(state: CollectionState, references: References): Garbage[] {
  const byNamespace = Map.groupBy(state.checkpoints, ({ metadata }) => metadata.namespace);
  const layers = layersInUse(state.sandboxes);
  return [...byNamespace.values()].flatMap((all) => {
    const storage = new Storage(all);
    const own = all.filter(isStepCache);
    const heldBy = (some: readonly Checkpoint[]) => storage.freedBy(uidsOf(some), layers);
    const most = heldBy(own) - state.stepCacheBytes;
    const left = new Set(own.filter((cache) => !references.hasCheckpoint(cache)).toSorted(longestUnneededFirst));
    const deleted: Checkpoint[] = [];
    for (let freed = 0; freed < most;) {
      // The first one that frees something now: a layer is freed with the last step on it.
      const next = [...left].find((cache) => heldBy([...deleted, cache]) > freed);
      if (next === undefined) break;
      left.delete(next);
      deleted.push(next);
      freed = heldBy(deleted);
    }
    return deleted.map((cache) => {
      const why = `captured step that no recipe has had since ${lastNeededAt(cache)}, above the size budget`;
      return garbageOf(cache, { garbage: "StepCache", kind: "Checkpoint", why });
    });
  });
}

/** When a recipe last had the step; for a step that was never part of a finished build, when it was captured. */
export function lastNeededAt({ metadata, status }: Checkpoint): string {
  return metadata.annotations?.[annotations.unneededSince] ?? status?.completionTime ?? metadata.creationTimestamp;
}

function isStepCache(checkpoint: Checkpoint): boolean {
  return checkpoint.metadata.labels?.[labels.purpose] === "step" && isCloneable(checkpoint);
}

function longestUnneededFirst(a: Checkpoint, b: Checkpoint): number {
  const [first, second] = [Date.parse(lastNeededAt(a)), Date.parse(lastNeededAt(b))];
  return first - second || a.metadata.name.localeCompare(b.metadata.name);
}

/** Objects that others refer to are never deleted. */
interface References {
  hasCheckpoint: (checkpoint: Checkpoint) => boolean;
  hasTemplate: (template: SandboxTemplate) => boolean;
}

/**
 * References of all objects, including ended sandboxes, which may still be inspected. A named snapshot whose spec its controller
 * has not observed yet may need any captured step of its namespace.
 */
export function referencesOf({ sandboxes, sets, templates, snapshots }: CollectionState): References {
  const texts = new Set([
    ...sandboxes.flatMap((one) => inNamespace(one, originReferences(one))),
    ...[...sets, ...templates].flatMap((one) => inNamespace(one, templateOriginReferences(one.spec.template))),
    ...snapshots.flatMap((one) => inNamespace(one, ofSnapshot(one))),
  ]);
  const named = new Set([
    ...[...sandboxes, ...sets].flatMap((one) => inNamespace(one, [one.spec.templateRef?.name])),
    ...snapshots.flatMap((one) => inNamespace(one, [one.spec.from.template?.name])),
  ]);
  const steps = new Set(
    snapshots.flatMap((one) =>
      inNamespace(
        one,
        (one.status?.steps ?? []).map(({ digest }) => digest),
      ),
    ),
  );
  const unread = new Set(snapshots.filter(isUnread).map(({ metadata }) => metadata.namespace));
  return {
    hasCheckpoint: ({ metadata, status }) => {
      const { namespace, name } = metadata;
      const step = metadata.annotations?.[annotations.stepDigest];
      const byText = [name, status?.checkpointId].some((text) => texts.has(`${namespace}/${text}`));
      return byText || (step !== undefined && (unread.has(namespace) || steps.has(`${namespace}/${step}`)));
    },
    hasTemplate: ({ metadata: { namespace, name } }) => named.has(`${namespace}/${name}`),
  };
}

function isUnread({ metadata, status }: NamedSnapshot): boolean {
  return status?.observedGeneration !== metadata.generation;
}

function ofSnapshot({ spec, status }: NamedSnapshot): (string | undefined)[] {
  const versions = status?.versions ?? [];
  return [
    spec.from.checkpoint?.id,
    status?.checkpointId,
    ...versions.flatMap(({ checkpointId, checkpointName }) => [checkpointId, checkpointName]),
  ];
}

function inNamespace(
  { metadata }: { metadata: { namespace: string } },
  texts: readonly (string | undefined)[],
): string[] {
  return texts.filter((text) => text !== undefined && text !== "").map((text) => `${metadata.namespace}/${text}`);
}
