import { RametError } from "../../base/errors.ts";
import {
  isPinnedReference,
  parseSnapshotReference,
  type SnapshotReference,
} from "../../api/snapshot/snapshot-reference.ts";
import type { Cache } from "./cache.ts";
import { findVersion } from "../../api/snapshot/find-version.ts";
import type { Informers } from "./resources.ts";

/** What a `restore-from` text stands for. */
export type ResolvedReference =
  /** `isNamed`: by way of a named snapshot, which may stand for another id later. */
  { checkpointId: string; isNamed: boolean } | { waiting: string };

/**
 * The checkpoint id that a `restore-from` text means: an id is itself, `python`, `python@7` and `python@sha256:…` mean a
 * version of a named snapshot of the namespace. The one place where references are followed. An id goes before a name.
 * @throws RametError `NotFound` for a version that is not kept, `InvalidArgument` for a text that can be no reference
 */
export async function resolveReference(
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
  // Whoever asks for the clone may have seen what this cache has not.
  const snapshot = store.get(`${namespace}/${reference.name}`) ?? (await resource.find(at));
  if (snapshot === undefined) {
    if (!isPinnedReference(text)) return asId;
    throw new RametError(
      "NotFound",
      `The named snapshot ${reference.name} does not exist in the namespace ${namespace}`,
      {
        hint: `List what there is with: ramet snapshot ls -n ${namespace}`,
      },
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

/** Ids may have other characters than names. */
function asName(text: string): SnapshotReference | undefined {
  try {
    return parseSnapshotReference(text);
  } catch {
    return undefined;
  }
}
