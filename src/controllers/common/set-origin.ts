import type { SnapshotVersion } from "../../api/kinds/named-snapshot-status.ts";
import type { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { annotations, restoreFromAnnotations } from "../../api/names/labels.ts";
import { findVersion, isPinnedReference, parseSnapshotReference } from "../../api/snapshot/snapshot-reference.ts";
import type { Cache } from "./cache.ts";
import { partsOf } from "../../backends/checkpoint-record.ts";
import { neededEngine } from "./engines.ts";
import type { NodeCpus } from "./node-cpus.ts";

/**
 * Resolves the `restore-from` annotation of a set's template to a checkpoint id. A reference is a checkpoint id, or a named
 * snapshot of the namespace with or without a version. The resolved id is part of each sandbox and of the revision, so a
 * snapshot that moves makes another revision, to which the set rolls.
 *
 * An id that does not exist is not an error here: the first sandbox reports it, and the set passes that on.
 * @throws RametError `CheckpointNotReady` if the named snapshot has no version yet, `NotFound` if the version is not kept
 */
export function resolveOrigin(
  namespace: string,
  reference: string,
  cache: Pick<Cache, "checkpointById" | "snapshot">,
): string {
  return namedVersion(namespace, reference, cache)?.version.checkpointId ?? reference;
}

/**
 * The checkpoint ids of other kept versions with the content of this reference: captures of the same digest with another engine.
 * @throws RametError like {@link resolveOrigin}
 */
export function otherCaptures(
  namespace: string,
  reference: string,
  cache: Pick<Cache, "checkpointById" | "snapshot">,
): string[] {
  const named = namedVersion(namespace, reference, cache);
  if (named === undefined) return [];
  const { snapshot, version } = named;
  return (snapshot.status?.versions ?? [])
    .filter(({ digest, checkpointId }) => digest === version.digest && checkpointId !== version.checkpointId)
    .map(({ checkpointId }) => checkpointId);
}

/** Undefined: the reference is a checkpoint id. */
function namedVersion(
  namespace: string,
  reference: string,
  cache: Pick<Cache, "checkpointById" | "snapshot">,
): { snapshot: NamedSnapshot; version: SnapshotVersion } | undefined {
  const [name = ""] = reference.split("@");
  const snapshot = cache.snapshot(`${namespace}/${name}`);
  if (snapshot === undefined || cache.checkpointById(namespace, reference) !== undefined) return undefined;
  const parsed = isPinnedReference(reference) ? parseSnapshotReference(reference) : { name };
  return { snapshot, version: findVersion(snapshot, parsed) };
}

/**
 * Decides whether the memory of a reference can be restored in place in a sandbox: in its cell, on the CPU of its node. Undefined: it
 * needs no engine, as far as the cache knows.
 */
export function fitsReference(
  namespace: string,
  reference: string,
  { cache, nodeCpus }: { cache: Pick<Cache, "checkpointById" | "snapshot">; nodeCpus: Pick<NodeCpus, "lacks"> },
): ((sandbox: Sandbox) => boolean) | undefined {
  try {
    const checkpoint = cache.checkpointById(namespace, resolveOrigin(namespace, reference, cache));
    const parts = partsOf(checkpoint?.status?.ramet) ?? [];
    const { engineId } = neededEngine(parts);
    if (engineId === undefined) return undefined;
    return ({ status }) => status?.ramet?.engine === engineId && !nodeCpus.lacks(status.nodeName, parts);
  } catch {
    // The sandbox reports a reference that cannot be resolved.
    return undefined;
  }
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
  return [...restoreFromAnnotations, annotations.resolvedCheckpoint].flatMap((key) => {
    const value = values?.[key];
    return typeof value === "string" && value !== "" ? [value] : [];
  });
}
