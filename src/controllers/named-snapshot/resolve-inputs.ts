import { sandboxState } from "../../api/state/sandbox.ts";
import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { type NamedSnapshot, volumesLeftOut } from "../../api/kinds/named-snapshot.ts";
import type { SandboxTemplate } from "../../api/kinds/sandbox-template.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { annotations } from "../../api/names/labels.ts";
import { volumesChoice } from "../../api/names/volumes-on-restore.ts";
import type { RecipeStep } from "../../api/recipe/recipe.ts";
import {
  canHaveLayers,
  snapshotDigest,
  type CopiedContent,
  type ResolvedSource,
} from "../../api/snapshot/snapshot-digest.ts";
import { findVersion, printSnapshotReference } from "../../api/snapshot/snapshot-reference.ts";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import { claimsOfTemplate, listed } from "../volumes/restored-volumes.ts";
import { secretsOfTemplate } from "../origin/secrets-in-memory.ts";
import type { BuildOrigin, SnapshotState } from "./state.ts";

export interface InputLookups {
  template: (name: string) => SandboxTemplate | undefined;
  snapshot: (name: string) => NamedSnapshot | undefined;
  sandbox: (name: string) => Sandbox | undefined;
  /** The checkpoint with this id, if it can be cloned. */
  checkpoint: (id: string) => Checkpoint | undefined;
  /** The Secrets whose values a sandbox or a checkpoint can contain. */
  secretsOfSandbox: (sandbox: Sandbox) => string[];
  secretsOfCheckpoint: (checkpoint: Checkpoint) => string[];
  /** The volumes that are PersistentVolumeClaims: of a sandbox, and of the source of a checkpoint. */
  volumesOfSandbox: (sandbox: Sandbox) => string[];
  volumesOfCheckpoint: (id: string) => string[];
  /** Whether the controllers make layers. @default true */
  hasLayers?: boolean;
  /** Represents the content that steps copy, by step index; or the problem that prevents reading it. */
  copied: ReadonlyMap<number, CopiedContent> | { problem: RametError };
}

/** The version that a spec asks for with its digest, or the missing input. */
export function resolveInputs(snapshot: NamedSnapshot, lookups: InputLookups): SnapshotState["desired"] {
  const { metadata, spec } = snapshot;
  const cycle = snapshotCycle(metadata.name, (name) => {
    const one = name === metadata.name ? snapshot : lookups.snapshot(name);
    return one?.spec.from.snapshot?.name;
  });
  if (cycle !== undefined) return { reason: "Cycle", problem: inCycle(cycle) };
  try {
    const { source, inheritedSecrets = [], volumes, ...from } = resolveSource(snapshot, lookups);
    const left = volumesLeftOut(spec, volumes);
    if (left.length > 0 && volumesChoice(snapshot) === undefined) throw notChosen(left);
    if ("problem" in lookups.copied) throw lookups.copied.problem;
    const { copied } = lookups;
    const { recipe, contents, volumes: chosen, layers } = spec;
    if (layers === true) refuseLayers({ from: source, contents }, from.origin);
    const { hasLayers } = lookups;
    const digest = snapshotDigest({ from: source, recipe, copied, contents, volumes: chosen, layers, hasLayers });
    const secrets = [...new Set([...inheritedSecrets, ...secretsOf(spec.recipe)])];
    return { ...from, digest, copied, inheritedSecrets, secrets, ...(copied.size > 0 && requeue) };
  } catch (error) {
    const problem = RametError.from(error);
    return { reason: problem.code === "VolumesNotCaptured" ? problem.code : "InputMissing", problem };
  }
}

function refuseLayers(inputs: Parameters<typeof canHaveLayers>[0], origin: BuildOrigin): void {
  if (canHaveLayers(inputs)) return;
  const template = "the template mounts volumes, or its root file system is read-only";
  const why = origin.kind === "template" ? template : "the source is no SandboxTemplate";
  throw new RametError("NotSupported", `The files of the steps cannot be layers: ${why}`, {
    hint: "Remove spec.layers, or build from a template with a writable root and without volume mounts",
  });
}

/** ConfigMaps and Secrets have no informer. */
const requeue = { requeueAfterMilliseconds: 60_000 };

interface Source {
  source: ResolvedSource;
  origin: BuildOrigin;
  parent: string;
  inheritedSecrets?: string[];
  /** The volumes of the source that are PersistentVolumeClaims and whose data no checkpoint contains yet. */
  volumes: string[];
}

function resolveSource({ spec: { from }, metadata: { namespace } }: NamedSnapshot, lookups: InputLookups): Source {
  if (from.template !== undefined) {
    const { name } = from.template;
    const found = lookups.template(name) ?? missing("SandboxTemplate", name, namespace);
    return {
      source: { template: found.spec },
      origin: { kind: "template", spec: found.spec },
      parent: `template/${name}`,
      inheritedSecrets: secretsOfTemplate(found.spec.template),
      volumes: claimsOfTemplate(found.spec, "").map(({ volume }) => volume),
    };
  }
  if (from.snapshot !== undefined) {
    const found = lookups.snapshot(from.snapshot.name) ?? missing("NamedSnapshot", from.snapshot.name, namespace);
    const { name, version: pinned, digest: exact } = from.snapshot;
    const { digest } = findVersion(found, { name, ...defined({ version: pinned, digest: exact }) });
    // An upgrade may have captured a pinned version again.
    const {
      version,
      checkpointId,
      secrets: inheritedSecrets = [],
    } = findVersion(found, { name: found.metadata.name, digest });
    const parent = printSnapshotReference({ name, version });
    return {
      source: { snapshot: { digest } },
      origin: { kind: "checkpoint", checkpointId },
      parent,
      inheritedSecrets,
      volumes: lookups.volumesOfCheckpoint(checkpointId),
    };
  }
  if (from.sandbox !== undefined) {
    const { name } = from.sandbox;
    const found = lookups.sandbox(name) ?? missing("Sandbox", name, namespace);
    const source = { sandbox: { name, uid: found.metadata.uid } };
    const inheritedSecrets = lookups.secretsOfSandbox(found);
    const volumes = lookups.volumesOfSandbox(found);
    return { source, origin: sandboxOrigin(found), parent: `sandbox/${name}`, inheritedSecrets, volumes };
  }
  const id = from.checkpoint?.id ?? "";
  const found = lookups.checkpoint(id);
  if (found === undefined) {
    throw new RametError(
      "NotFound",
      `The namespace ${namespace} has no checkpoint with the id ${id} that can be cloned`,
      { hint: `List the ids with: ramet checkpoint ls -n ${namespace}` },
    );
  }
  return {
    source: { checkpoint: { id } },
    origin: { kind: "checkpoint", checkpointId: id },
    parent: `checkpoint/${id}`,
    inheritedSecrets: lookups.secretsOfCheckpoint(found),
    volumes: lookups.volumesOfCheckpoint(id),
  };
}

function sandboxOrigin(sandbox: Sandbox): BuildOrigin {
  const { name } = sandbox.metadata;
  const { message = "it is starting" } = sandbox.status ?? {};
  // A sandbox in any other state is not about to become ready, so its capture fails and says why.
  const isStarting = ["starting", "degraded"].includes(sandboxState(sandbox).is);
  return { kind: "sandbox", name, ...(isStarting && { starting: message }) };
}

function secretsOf(recipe: readonly RecipeStep[]): string[] {
  return recipe.flatMap(({ copy }) => (copy?.secretKeyRef === undefined ? [] : [copy.secretKeyRef.name]));
}

function missing(kind: string, name: string, namespace: string): never {
  throw new RametError(
    "NotFound",
    `The source does not exist: there is no ${kind} ${name} in the namespace ${namespace}`,
    { hint: "Create it; the build then starts" },
  );
}

function notChosen(volumes: readonly string[]): RametError {
  const message = `The versions do not contain the data of the volumes ${listed(volumes)}, and the snapshot does not say which volumes its builds use`;
  return new RametError("VolumesNotCaptured", message, {
    hint: `Add volumes to spec.contents, and their names to spec.volumes if it is set, or set the annotation ${annotations.volumesOnRestore} to Empty for new claims, or to Shared for the claims of the source`,
  });
}

function inCycle(cycle: string[]): RametError {
  return new RametError("InvalidArgument", `The snapshot is built from itself: ${cycle.join(" → ")}`, {
    hint: "Give one of them another source in spec.from",
  });
}

/**
 * The names on the path from a snapshot back to itself, which start and end with it; undefined without a cycle.
 * @param parentOf the snapshot from which another one is built, if any
 */
export function snapshotCycle(name: string, parentOf: (name: string) => string | undefined): string[] | undefined {
  const path = [name];
  const met = new Set(path);
  for (let parent = parentOf(name); parent !== undefined; parent = parentOf(parent)) {
    path.push(parent);
    if (parent === name) return path;
    // A cycle among its ancestors is reported by them.
    if (met.has(parent)) return undefined;
    met.add(parent);
  }
  return undefined;
}
