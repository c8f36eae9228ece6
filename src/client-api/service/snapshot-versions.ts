import type { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import { findVersion, parseSnapshotReference } from "../../api/snapshot/snapshot-reference.ts";
import { RametError } from "../../base/errors.ts";
import { diffVersions, type VersionDiff } from "../../api/snapshot/diff-versions.ts";
import type { ServiceParts } from "./parts.ts";

/** The named snapshots of a namespace, by name. */
export function namedSnapshots({ known }: Pick<ServiceParts, "known">, namespace: string): NamedSnapshot[] {
  return known
    .snapshotsIn(namespace)
    .filter(({ metadata }) => metadata.deletionTimestamp === undefined)
    .toSorted((a, b) => a.metadata.name.localeCompare(b.metadata.name));
}

/** Reads a named snapshot, whose versions another server may just have changed. @throws RametError `NotFound` */
export async function namedSnapshot(
  { informers }: Pick<ServiceParts, "informers">,
  namespace: string,
  text: string,
  signal: AbortSignal,
): Promise<NamedSnapshot> {
  const { name } = parseSnapshotReference(text);
  const found = await informers.snapshots.resource.find({ namespace, name }, { signal });
  if (found !== undefined && found.metadata.deletionTimestamp === undefined) return found;
  throw new RametError("NotFound", `The named snapshot ${name} does not exist`, { hint: "List the named snapshots" });
}

/**
 * Compares two versions of named snapshots by what Ramet recorded about them.
 * @param from a reference such as `name@3`; without a version, the current one
 * @throws RametError `NotFound`; `CheckpointNotReady` for a snapshot without a version
 */
export async function compareVersions(
  parts: Pick<ServiceParts, "informers" | "known">,
  namespace: string,
  { from, to }: { from: string; to: string },
  signal: AbortSignal,
): Promise<VersionDiff> {
  const find = async (text: string) => {
    const snapshot = await namedSnapshot(parts, namespace, text, signal);
    const version = findVersion(snapshot, parseSnapshotReference(text));
    return { snapshot, version, checkpoint: parts.known.checkpointById(namespace, version.checkpointId) };
  };
  return diffVersions(...(await Promise.all([find(from), find(to)])));
}
