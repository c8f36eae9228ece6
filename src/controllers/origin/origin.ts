import { type Checkpoint, type CheckpointPart, volumeParts } from "../../api/kinds/checkpoint.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { annotations, originAnnotations } from "../../api/names/labels.ts";
import type { PodTemplateSpec } from "../../api/schema/pod-template.ts";
import {
  type SnapshotReference,
  findVersion,
  isPinnedReference,
  parseSnapshotReference,
  resolveOrigin,
} from "../../api/snapshot/snapshot-reference.ts";
import { type HiddenFiles, compareTemplate } from "../../api/snapshot/template-difference.ts";
import { checkpointState, isCloneable } from "../../api/state/checkpoint.ts";
import type { Backends } from "../../backends/backends.ts";
import type { RestoreSource } from "../../backends/checkpoint-parts.ts";
import { partsOf } from "../../backends/checkpoint-record.ts";
import { RametError, resultOr, resultOrError } from "../../base/errors.ts";
import type { Cache } from "../cluster/cache.ts";
import type { ControllerParts } from "../cluster/controller-parts.ts";
import { dataIdOf } from "../cluster/pause-checkpoint.ts";
import type { Informers } from "../cluster/resources.ts";
import { type Engines, neededEngine } from "../images/engines.ts";
import type { NodeCpus } from "../nodes/node-cpus.ts";

/** Where a sandbox's contents come from. */
export type Origin =
  | { kind: "new" }
  | { kind: "waiting"; message: string }
  | { kind: "impossible"; error: RametError }
  /** `isNamed`: the reference is a named snapshot, which may mean another checkpoint later. */
  | { kind: "checkpoint"; source: RestoreSource; isNamed?: boolean; hidden?: HiddenFiles };

type Known = Pick<ControllerParts, "cache" | "informers" | "backends" | "engines">;

/** The checkpoint of a reference. `origin` reports whether a sandbox with a given template can start from it. */
export interface FoundOrigin {
  checkpoint?: Checkpoint;
  origin: (template: PodTemplateSpec | undefined) => Origin;
}

/**
 * Resolves a `restore-from` or `rollback-to` text for a sandbox of a namespace. A text that cannot be resolved has the origin
 * `impossible`; it is not an exception.
 *
 * @param readText returns the text; undefined: there is none, and the origin is `new`
 */
export async function originOfText(
  namespace: string,
  readText: () => string | undefined,
  dependencies: Known,
): Promise<FoundOrigin> {
  try {
    const text = readText();
    if (text === undefined) return { origin: () => ({ kind: "new" }) };
    const resolved = await resolveReference(namespace, text, dependencies);
    if ("waiting" in resolved) return { origin: () => ({ kind: "waiting", message: resolved.waiting }) };
    const { checkpointId: id, isNamed } = resolved;
    const checkpoint = await findCheckpoint(namespace, id, dependencies);
    if (checkpoint !== undefined) {
      return {
        checkpoint,
        origin: (template) => named(originFrom(checkpoint, template, dependencies), isNamed),
      };
    }
    const namesake = dependencies.cache.checkpoint(`${namespace}/${id}`);
    return { origin: () => unknownCheckpoint(namespace, id, namesake) };
  } catch (thrown) {
    const error = RametError.from(thrown);
    if (error.code !== "InvalidArgument" && error.code !== "NotFound") throw error;
    return { origin: () => ({ kind: "impossible", error }) };
  }
}

function named(origin: Origin, isNamed: boolean): Origin {
  return origin.kind === "checkpoint" ? { ...origin, isNamed } : origin;
}

/** Finds a checkpoint in the sandbox's own namespace. No other namespace is ever searched: it belongs to another tenant. */
async function findCheckpoint(
  namespace: string,
  id: string,
  { cache, informers }: Pick<Known, "cache" | "informers">,
): Promise<Checkpoint | undefined> {
  const cached = cache.checkpointById(namespace, id);
  if (isCloneable(cached)) return cached;
  // The client may have seen an object that this cache does not have yet, so ask the API server before rejecting.
  const { items } = await informers.checkpoints.resource.list({ namespace });
  return items.find(({ status }) => status?.checkpointId === id);
}

/** The checkpoint that a `restore-from` text refers to. */
type ResolvedReference =
  /** `isNamed`: the text is a named snapshot, which may refer to another id later. */
  { checkpointId: string; isNamed: boolean } | { waiting: string };

/**
 * Returns the checkpoint id of a `restore-from` text. `python`, `python@7` and `python@sha256:…` refer to a version of a named
 * snapshot of the namespace; any other text is an id. An id takes precedence over a name.
 * @throws RametError `NotFound` for a version that is not kept, `InvalidArgument` for a text that is not a valid reference
 */
async function resolveReference(
  namespace: string,
  text: string,
  { cache, informers }: { cache: Pick<Cache, "checkpointById">; informers: Pick<Informers, "snapshots"> },
): Promise<ResolvedReference> {
  const asId = { checkpointId: text, isNamed: false };
  if (cache.checkpointById(namespace, text) !== undefined) return asId;
  const reference = isPinnedReference(text) ? parseSnapshotReference(text) : asName(text);
  if (reference === undefined) return asId;
  const { store, resource } = informers.snapshots;
  const at = { namespace, name: reference.name };
  // The client may have seen an object that this cache does not have yet.
  const snapshot = store.get(`${namespace}/${reference.name}`) ?? (await resource.find(at));
  if (snapshot === undefined) {
    if (!isPinnedReference(text)) return asId;
    throw new RametError(
      "NotFound",
      `The named snapshot ${reference.name} does not exist in the namespace ${namespace}`,
      { hint: `List the named snapshots with: ramet snapshot ls -n ${namespace}` },
    );
  }
  try {
    return { checkpointId: findVersion(snapshot, reference).checkpointId, isNamed: true };
  } catch (error) {
    const { code, message } = RametError.from(error);
    if (code === "CheckpointNotReady") return { waiting: `Waiting for the first version: ${message}` };
    throw error;
  }
}

/** Undefined for an id that is not a valid name: ids may contain other characters. */
function asName(text: string): SnapshotReference | undefined {
  return resultOr(() => parseSnapshotReference(text), undefined);
}

/** Decides whether a sandbox with this template can be restored from this checkpoint. */
export function originFrom(
  checkpoint: Checkpoint,
  template: PodTemplateSpec | undefined,
  installed: Installed,
): Origin {
  const { metadata, status } = checkpoint;
  const checkpointId = status?.checkpointId ?? "";
  const unusable = endOf(checkpoint);
  if (unusable !== undefined) return impossible(notCloneable(checkpoint, `it ${unusable}`));
  if (!isCloneable(checkpoint)) {
    return { kind: "waiting", message: `Waiting for the checkpoint ${metadata.name} to succeed` };
  }
  const parts = partsOf(status?.ramet);
  if (parts === undefined) return impossible(unrecorded(checkpointId));
  const memory = parts.some(({ contents }) => contents.includes("memory"));
  const { mismatch, hidden = [] } = template === undefined ? {} : compareTemplate(checkpoint, template, memory);
  const problem = mismatch ?? missingPart(parts, checkpointId, installed);
  if (problem !== undefined) return impossible(problem);
  const source = sourceOf(checkpoint, checkpointId, parts);
  return { kind: "checkpoint", source, ...(hidden.length > 0 && { hidden }) };
}

function sourceOf(checkpoint: Checkpoint, checkpointId: string, parts: RestoreSource["parts"]): RestoreSource {
  const { namespace } = checkpoint.metadata;
  const name = { namespace, checkpointId };
  const dataId = dataIdOf(checkpoint);
  return dataId === checkpointId ? { name, parts } : { name, parts, data: { namespace, checkpointId: dataId } };
}

/** The backends and the cell images of this installation. */
interface Installed {
  backends: Pick<Backends, "forParts">;
  engines: Pick<Engines, "problemOf">;
}

/** The backend or the engine that is needed and not installed. */
function missingPart(
  parts: RestoreSource["parts"],
  checkpointId: string,
  { backends, engines }: Installed,
): RametError | undefined {
  return resultOrError(() => {
    backends.forParts(parts);
    return engines.problemOf(parts, checkpointId);
  });
}

function endOf(checkpoint: Checkpoint): string | undefined {
  const state = checkpointState(checkpoint);
  if (state === "failed") return "has failed";
  const isDeleting = state === "deleting" || checkpoint.metadata.deletionTimestamp !== undefined;
  return isDeleting ? "is being deleted" : undefined;
}

function notCloneable({ metadata, status }: Checkpoint, why: string): RametError {
  const what = `The checkpoint ${status?.checkpointId ?? ""} (${metadata.name}) cannot be cloned: ${why}`;
  return new RametError("CheckpointNotReady", what, {
    hint: "Take another checkpoint of the source, and restore from that",
  });
}

function unrecorded(id: string): RametError {
  return new RametError("CheckpointLost", `The checkpoint ${id} cannot be cloned: Ramet has no record of its data`, {
    hint: "It may have been taken by another controller; take it again with Ramet",
  });
}

/** The origin of an id that no Checkpoint of the namespace has. `named`: a Checkpoint whose name it is. */
function unknownCheckpoint(namespace: string, id: string, named: Checkpoint | undefined): Origin {
  const own = named?.status?.checkpointId;
  return impossible(
    new RametError("NotFound", `No checkpoint in the namespace ${namespace} has the id ${id}`, {
      hint:
        own === undefined
          ? `List the ids with: ramet checkpoint ls -n ${namespace}`
          : `Restore from ${own}, which is the id of the Checkpoint with that name`,
    }),
  );
}

function impossible(error: RametError): Origin {
  return { kind: "impossible", error };
}

type OriginCache = Pick<Cache, "checkpointById" | "snapshot">;

/**
 * Decides whether the memory of a reference can be restored in place in a sandbox: in its cell, on the CPU of its node. Undefined: it
 * needs no engine, as far as the cache knows.
 */
export function fitsReference(
  namespace: string,
  reference: string,
  { cache, nodeCpus }: { cache: OriginCache; nodeCpus: Pick<NodeCpus, "lacks"> },
): ((sandbox: Sandbox) => boolean) | undefined {
  const parts = partsOfReference(namespace, reference, cache);
  const { engineId } = neededEngine(parts);
  if (engineId === undefined) return undefined;
  return ({ status }) => status?.ramet?.engine === engineId && !nodeCpus.lacks(status.nodeName, parts);
}

/** Whether a reference has volumes. The volumes of a Pod never change, so a running one cannot be restored from it. */
export function hasCapturedVolumes(namespace: string, reference: string, cache: OriginCache): boolean {
  return volumeParts(partsOfReference(namespace, reference, cache)).length > 0;
}

function partsOfReference(namespace: string, reference: string, cache: OriginCache): readonly CheckpointPart[] {
  // The sandbox or the claim reports a reference that cannot be resolved.
  const id = resultOr(() => resolveOrigin(namespace, reference, cache), undefined);
  const checkpoint = id === undefined ? undefined : cache.checkpointById(namespace, id);
  return partsOf(checkpoint?.status?.ramet) ?? [];
}

/**
 * All references of a Sandbox to its origins: checkpoint ids, and named snapshots with or without a version. The checkpoints
 * that they refer to must not be removed.
 */
export function originReferences({ metadata, spec, status }: Sandbox): string[] {
  const { restoredFrom = "", rollback } = status?.ramet ?? {};
  const rollbackTo = metadata.annotations?.[annotations.rollbackTo] ?? "";
  const others = [rollbackTo, restoredFrom, rollback?.checkpointId ?? ""].filter((text) => text !== "");
  return [...new Set([...namedBy(metadata.annotations), ...templateOriginReferences(spec.template), ...others])];
}

/** The same for a Pod template of a set or a SandboxTemplate. The API does not validate it, so it may contain anything. */
export function templateOriginReferences(template: Record<string, unknown> | undefined): string[] {
  const metadata = template?.["metadata"] as { annotations?: Record<string, unknown> } | null | undefined;
  return namedBy(metadata?.annotations);
}

function namedBy(values: Record<string, unknown> | undefined): string[] {
  return originAnnotations.flatMap((key) => {
    const value = values?.[key];
    return typeof value === "string" && value !== "" ? [value] : [];
  });
}
