import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import type { SnapshotVersion } from "../../api/kinds/named-snapshot-status.ts";
import type { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import { findVersion, parseSnapshotReference, printSnapshotReference } from "../../api/snapshot/snapshot-reference.ts";
import { RametError } from "../../base/errors.ts";
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

/** A field in which two versions differ. Null: the version does not have it. */
export interface VersionChange {
  field: string;
  from: unknown;
  to: unknown;
}

export interface VersionDiff {
  from: string;
  to: string;
  changes: VersionChange[];
}

/**
 * Compares two versions of named snapshots, by what Ramet recorded about them: inputs, image, settings of the template, contents, layers
 * of files, Secrets and sizes.
 * @param from a reference such as `name@3`; without a version, the current one
 * @throws RametError `NotFound`; `CheckpointNotReady` for a snapshot without a version
 */
export async function diffVersions(
  parts: Pick<ServiceParts, "informers" | "known">,
  namespace: string,
  { from, to }: { from: string; to: string },
  signal: AbortSignal,
): Promise<VersionDiff> {
  const [before, after] = await Promise.all(
    [from, to].map(async (text) => {
      const snapshot = await namedSnapshot(parts, namespace, text, signal);
      const version = findVersion(snapshot, parseSnapshotReference(text));
      const { name } = snapshot.metadata;
      const checkpoint = parts.known.checkpointById(namespace, version.checkpointId);
      return {
        reference: printSnapshotReference({ name, version: version.version }),
        fields: comparedFields(version, checkpoint),
      };
    }),
  );
  const fields = new Set([before, after].flatMap((each) => [...(each?.fields.keys() ?? [])]));
  const changes = [...fields].flatMap((field): VersionChange[] => {
    const [old = null, current = null] = [before, after].map((each) => each?.fields.get(field));
    return JSON.stringify(old) === JSON.stringify(current) ? [] : [{ field, from: old, to: current }];
  });
  return { from: before?.reference ?? from, to: after?.reference ?? to, changes };
}

function comparedFields(version: SnapshotVersion, checkpoint: Checkpoint | undefined): Map<string, unknown> {
  const { template = {}, imageDigest, contents, parts = [], addedBytes } = checkpoint?.status?.ramet ?? {};
  const { digest, parent, engine, secrets, sizeBytes } = version;
  return new Map<string, unknown>([
    ["digest", digest],
    ["parent", parent],
    ...Object.entries(template).map(([name, value]): [string, unknown] => [`template.${name}`, value]),
    ["image_digest", imageDigest],
    ["contents", contents],
    ["volumes", parts.flatMap(({ volume }) => (volume === undefined ? [] : [volume.volume]))],
    ["layers", parts.flatMap(({ layers = [] }) => layers.map(({ manifestDigest }) => manifestDigest))],
    ["engine", engine],
    ["secrets", secrets],
    ["size_bytes", sizeBytes],
    ["added_bytes", addedBytes],
  ]);
}
