import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import type { SnapshotVersion } from "../../api/kinds/named-snapshot-status.ts";
import type { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import { parseClientName } from "../../api/names/client-names.ts";
import {
  findVersion,
  isPinnedReference,
  parseSnapshotReference,
  tagsAnnotation,
  tagsOf,
} from "../../api/snapshot/snapshot-reference.ts";
import { RametError } from "../../base/errors.ts";
import type { Followers } from "../../kube/followers.ts";
import type { KubeObject } from "../../kube/object.ts";
import type { Followed } from "../../operations/objects.ts";
import { untilShownDeleted } from "./cache-lag.ts";
import type { ServiceParts } from "./parts.ts";
import { deleteAllSources, deleteSources } from "./snapshots.ts";
import { currentSource } from "./source.ts";

/**
 * Deletes a snapshot: a checkpoint, one version of a named snapshot, or a named snapshot with all of its versions. Clones are not
 * affected.
 * @throws RametError `NotFound`; `Forbidden` for a set, a template, or one version of those that a recipe builds
 */
export async function deleteSnapshot(
  parts: ServiceParts,
  namespace: string,
  text: string,
  signal: AbortSignal,
): Promise<void> {
  const { known } = parts;
  const unbuilt = known.snapshot(`${namespace}/${parseClientName(text, namespace).name}`);
  if (unbuilt !== undefined && unbuilt.status?.version === undefined) {
    await removeWhole(parts, unbuilt, signal);
    return;
  }
  const { reference, checkpoint } = await deletable(parts, namespace, text, signal);
  const snapshot = known.snapshot(`${namespace}/${reference.split("@")[0] ?? ""}`);
  if (
    snapshot !== undefined &&
    snapshot.spec.from.checkpoint === undefined &&
    parseClientName(text, namespace).pin !== undefined
  )
    throw new RametError("Forbidden", `${text} is a version that a recipe has built, which clients cannot delete`, {
      hint: `Delete the named snapshot ${snapshot.metadata.name} with all of its versions, or change its recipe`,
    });
  const others = snapshot === undefined ? [] : otherVersions(parts, snapshot, reference);
  const existed =
    snapshot !== undefined && others.length === 0
      ? await removeWhole(parts, snapshot, signal)
      : await removeOne(parts, { snapshot, reference, others, checkpoint }, signal);
  if (!existed) throw new RametError("NotFound", `The snapshot ${text} does not exist`);
}

async function removeWhole(parts: ServiceParts, snapshot: NamedSnapshot, signal: AbortSignal): Promise<boolean> {
  const existed = await remove(parts.objects.snapshots, parts.snapshots, snapshot, signal);
  await deleteAllSources(parts, snapshot);
  return existed;
}

interface OneSnapshot {
  /** Undefined for a checkpoint without a name. */
  snapshot: NamedSnapshot | undefined;
  reference: string;
  others: readonly SnapshotVersion[];
  checkpoint: Checkpoint | undefined;
}

async function removeOne(parts: ServiceParts, one: OneSnapshot, signal: AbortSignal): Promise<boolean> {
  const { snapshot, checkpoint } = one;
  if (snapshot !== undefined) await leaveVersion(parts, snapshot, one, signal);
  if (checkpoint === undefined) return false;
  return remove(parts.objects.checkpoints, parts.checkpoints, checkpoint, signal);
}

async function deletable(parts: ServiceParts, namespace: string, text: string, signal: AbortSignal) {
  const source = await currentSource({ ...parts, aliases: new Map() }, namespace, text, signal);
  if (source.kind === "checkpoint") return source;
  throw new RametError("Forbidden", `${text} is a ${source.kind}, which clients cannot delete`, {
    hint: "Delete it where it is declared: with Pulumi or kubectl",
  });
}

/**
 * The versions that stay if a client deletes the one of the reference. None stays of a template, whose next build continues after its
 * earlier versions, and none if the reference names no version.
 */
function otherVersions(
  { known }: Pick<ServiceParts, "known">,
  snapshot: NamedSnapshot,
  reference: string,
): SnapshotVersion[] {
  const { spec, status, metadata } = snapshot;
  if (spec.from.checkpoint === undefined || !isPinnedReference(reference)) return [];
  const { version } = findVersion(snapshot, parseSnapshotReference(reference));
  return (status?.versions ?? []).filter((each) => {
    const checkpoint = known.checkpointById(metadata.namespace, each.checkpointId);
    return each.version !== version && checkpoint !== undefined && checkpoint.metadata.deletionTimestamp === undefined;
  });
}

/** Removes the tags of a version, and lets its name refer to the version before, so that its checkpoint can be deleted. */
async function leaveVersion(
  parts: ServiceParts,
  snapshot: NamedSnapshot,
  { reference, others }: Pick<OneSnapshot, "reference" | "others">,
  signal: AbortSignal,
): Promise<void> {
  const { snapshots } = parts.objects;
  const { status } = snapshot;
  const { version } = findVersion(snapshot, parseSnapshotReference(reference));
  const kept = Object.fromEntries(Object.entries(tagsOf(snapshot)).filter(([, each]) => each !== version));
  const isCurrent = version === status?.version;
  const pinnedVersion = others.at(-1)?.version;
  const change = { metadata: { annotations: tagsAnnotation(kept) }, ...(isCurrent && { spec: { pinnedVersion } }) };
  const written = await snapshots.patch(snapshot, change, signal);
  if (!isCurrent) return;
  await snapshots.follow(written, {
    what: `the snapshot ${snapshot.metadata.name}`,
    until: (current) => current?.status?.version !== version || undefined,
    describe: (current) => `its version is ${current?.status?.version ?? "unknown"}`,
    timeoutMilliseconds: pinMilliseconds,
    signal,
  });
  // The newest source holds the data of the current version.
  await deleteSources(parts, snapshot);
}

const pinMilliseconds = 10_000;

/** Deletes an object, and shows that to the next request. @returns whether it existed */
async function remove<T extends KubeObject>(
  objects: Followed<T>,
  followers: Followers<T>,
  object: T,
  signal: AbortSignal,
): Promise<boolean> {
  const existed = await objects.remove(object);
  await untilShownDeleted(followers, object, signal);
  return existed;
}
