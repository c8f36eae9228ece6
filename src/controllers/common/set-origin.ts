import { isPinnedReference, parseSnapshotReference } from "../../api/snapshot/snapshot-reference.ts";
import type { Cache } from "./cache.ts";
import { findVersion } from "../../api/snapshot/find-version.ts";

/**
 * The checkpoint that a `restore-from` annotation on a set's template means: the one place where a set looks a reference up.
 * A reference is a checkpoint id, or a named snapshot of the namespace with or without a version. What it is resolved to
 * stands in each sandbox and in the revision, so a reference that comes to mean another checkpoint makes another revision,
 * to which the set rolls.
 *
 * An id that does not exist is not refused here: the sandbox that is tried says so, and the set passes it on.
 * @throws RametError `CheckpointNotReady` when the named snapshot has no version yet, `NotFound` when that one is not kept
 */
export function resolveOrigin(
  namespace: string,
  reference: string,
  cache: Pick<Cache, "checkpointById" | "snapshot">,
): string {
  const [name = ""] = reference.split("@");
  const snapshot = cache.snapshot(`${namespace}/${name}`);
  if (snapshot === undefined || cache.checkpointById(namespace, reference) !== undefined) return reference;
  const parsed = isPinnedReference(reference) ? parseSnapshotReference(reference) : { name };
  return findVersion(snapshot, parsed).checkpointId;
}
