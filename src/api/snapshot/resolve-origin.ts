import type { Checkpoint } from "../kinds/checkpoint.ts";
import type { SnapshotVersion } from "../kinds/named-snapshot-status.ts";
import type { NamedSnapshot } from "../kinds/named-snapshot.ts";
import { findVersion, isPinnedReference, parseSnapshotReference } from "./snapshot-reference.ts";

/** The checkpoints and named snapshots that a process knows. */
export interface KnownOrigins {
  checkpointById(namespace: string, checkpointId: string): Checkpoint | undefined;
  /** @param key `namespace/name` */
  snapshot(key: string): NamedSnapshot | undefined;
}

/**
 * Resolves a reference, such as that of a set's template, to a checkpoint id. A reference is a checkpoint id, or a named
 * snapshot of the namespace with or without a version. The resolved id is part of each sandbox and of the revision, so a
 * snapshot that moves makes another revision, to which the set rolls.
 *
 * An id that does not exist is not an error here: the first sandbox reports it, and the set passes that on.
 * @throws RametError `CheckpointNotReady` if the named snapshot has no version yet, `NotFound` if the version is not kept
 */
export function resolveOrigin(namespace: string, reference: string, known: KnownOrigins): string {
  return namedVersion(namespace, reference, known)?.version.checkpointId ?? reference;
}

/**
 * The checkpoint ids of other kept versions with the content of this reference: captures of the same digest with another engine.
 * @throws RametError like {@link resolveOrigin}
 */
export function otherCaptures(namespace: string, reference: string, known: KnownOrigins): string[] {
  const named = namedVersion(namespace, reference, known);
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
  known: KnownOrigins,
): { snapshot: NamedSnapshot; version: SnapshotVersion } | undefined {
  const [name = ""] = reference.split("@");
  const snapshot = known.snapshot(`${namespace}/${name}`);
  if (snapshot === undefined || known.checkpointById(namespace, reference) !== undefined) return undefined;
  const parsed = isPinnedReference(reference) ? parseSnapshotReference(reference) : { name };
  return { snapshot, version: findVersion(snapshot, parsed) };
}
