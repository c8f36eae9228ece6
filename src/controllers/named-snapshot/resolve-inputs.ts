import type { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import type { SandboxTemplate } from "../../api/kinds/sandbox-template.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import type { RecipeStep } from "../../api/recipe/recipe.ts";
import { snapshotDigest } from "../../api/snapshot/snapshot-digest.ts";
import type { CopiedContent, ResolvedSource } from "../../api/snapshot/snapshot-inputs.ts";
import { findVersion, printSnapshotReference } from "../../api/snapshot/snapshot-reference.ts";
import { RametError } from "../../base/errors.ts";
import type { BuildOrigin, SnapshotState } from "./state.ts";

/** What the inputs of a snapshot are looked up in. */
export interface InputLookups {
  template: (name: string) => SandboxTemplate | undefined;
  snapshot: (name: string) => NamedSnapshot | undefined;
  sandbox: (name: string) => Sandbox | undefined;
  /** Whether a checkpoint with this id can be cloned. */
  hasCheckpoint: (id: string) => boolean;
  /** What stands for what steps copy, by the step's index; or why that cannot be said. */
  copied: ReadonlyMap<number, CopiedContent> | { problem: RametError };
}

/** What is to be built, with its digest; or what is missing for that. */
export function resolveInputs(snapshot: NamedSnapshot, lookups: InputLookups): SnapshotState["wanted"] {
  const { metadata, spec } = snapshot;
  const cycle = snapshotCycle(metadata.name, (name) => {
    const one = name === metadata.name ? snapshot : lookups.snapshot(name);
    return one?.spec.from.snapshot?.name;
  });
  if (cycle !== undefined) return { reason: "Cycle", problem: inCycle(cycle) };
  try {
    const { source, inheritedSecrets = [], ...from } = resolveSource(snapshot, lookups);
    if ("problem" in lookups.copied) throw lookups.copied.problem;
    const { copied } = lookups;
    const digest = snapshotDigest({ from: source, recipe: spec.recipe, copied, contents: spec.contents });
    const secrets = [...new Set([...inheritedSecrets, ...secretsOf(spec.recipe)])];
    return { ...from, digest, copied, inheritedSecrets, secrets, ...(copied.size > 0 && requeue) };
  } catch (error) {
    return { reason: "InputMissing", problem: RametError.from(error) };
  }
}

/** No informer tells of a changed ConfigMap or Secret. */
const requeue = { requeueAfterMilliseconds: 60_000 };

interface Source {
  source: ResolvedSource;
  origin: BuildOrigin;
  parent: string;
  inheritedSecrets?: string[];
}

function resolveSource({ spec: { from }, metadata: { namespace } }: NamedSnapshot, lookups: InputLookups): Source {
  if (from.template !== undefined) {
    const { name } = from.template;
    const found = lookups.template(name) ?? missing("SandboxTemplate", name, namespace);
    return {
      source: { template: found.spec },
      origin: { kind: "template", spec: found.spec },
      parent: `template/${name}`,
    };
  }
  if (from.snapshot !== undefined) {
    const found = lookups.snapshot(from.snapshot.name) ?? missing("NamedSnapshot", from.snapshot.name, namespace);
    const wish = withoutUndefined(from.snapshot);
    const { digest, version, checkpointId, secrets: inheritedSecrets = [] } = findVersion(found, wish);
    const parent = printSnapshotReference({ name: from.snapshot.name, version });
    return {
      source: { snapshot: { digest } },
      origin: { kind: "checkpoint", checkpointId },
      parent,
      inheritedSecrets,
    };
  }
  if (from.sandbox !== undefined) {
    const { name } = from.sandbox;
    const found = lookups.sandbox(name) ?? missing("Sandbox", name, namespace);
    const source = { sandbox: { name, uid: found.metadata.uid } };
    return { source, origin: { kind: "sandbox", name }, parent: `sandbox/${name}` };
  }
  const id = from.checkpoint?.id ?? "";
  if (!lookups.hasCheckpoint(id)) {
    throw new RametError("NotFound", `No checkpoint with the id ${id} can be cloned in the namespace ${namespace}`, {
      hint: `List the ids with: ramet checkpoint ls -n ${namespace}`,
    });
  }
  return {
    source: { checkpoint: { id } },
    origin: { kind: "checkpoint", checkpointId: id },
    parent: `checkpoint/${id}`,
  };
}

function secretsOf(recipe: readonly RecipeStep[]): string[] {
  return recipe.flatMap(({ copy }) => (copy?.secretKeyRef === undefined ? [] : [copy.secretKeyRef.name]));
}

function withoutUndefined({
  name,
  version,
  digest,
}: {
  name: string;
  version?: number | undefined;
  digest?: string | undefined;
}) {
  return { name, ...(version !== undefined && { version }), ...(digest !== undefined && { digest }) };
}

function missing(kind: string, name: string, namespace: string): never {
  throw new RametError("NotFound", `The ${kind} ${name}, from which it is built, does not exist in ${namespace}`, {
    hint: "Make it, and the build begins",
  });
}

function inCycle(cycle: string[]): RametError {
  return new RametError("InvalidArgument", `It is built from itself: ${cycle.join(" → ")}`, {
    hint: "Let one of them be built from something else",
  });
}

/**
 * The names on the way from a snapshot back to itself, beginning and ending with it; undefined when it is no descendant
 * of its own.
 * @param parentOf which snapshot that one is built from, if from any
 */
export function snapshotCycle(name: string, parentOf: (name: string) => string | undefined): string[] | undefined {
  const path = [name];
  const met = new Set(path);
  for (let parent = parentOf(name); parent !== undefined; parent = parentOf(parent)) {
    path.push(parent);
    if (parent === name) return path;
    // A cycle further up is theirs who are in it; this one waits for its parent.
    if (met.has(parent)) return undefined;
    met.add(parent);
  }
  return undefined;
}
