import type { Checkpoint, CheckpointManifest } from "../../api/kinds/checkpoint.ts";
import type { SnapshotVersion } from "../../api/kinds/named-snapshot-status.ts";
import type { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import { allVolumes } from "../../api/kinds/sandbox-parts.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { annotations, labels } from "../../api/names/labels.ts";
import { apiVersion, rametApiVersion } from "../../api/schema/kind.ts";
import { defaultTag, printSnapshotReference, tagsOf } from "../../api/snapshot/snapshot-reference.ts";
import { isUnfinished } from "../../api/state/checkpoint.ts";
import { snapshotState } from "../../api/state/named-snapshot.ts";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import { retryConflicts } from "../../kube/apply.ts";
import { awaitBuild } from "../../operations/await-build.ts";
import { capture } from "../../operations/capture.ts";
import { type Wait, objectOf } from "../../operations/objects.ts";
import { untilSnapshotKnown } from "./cache-lag.ts";
import { unknown } from "./find-sandbox.ts";
import { verifiedState } from "./lifecycle.ts";
import type { ServiceParts } from "./parts.ts";
import { hasExpired } from "./source.ts";
import { changeTags } from "./template-builds.ts";

export interface CreateSnapshot extends Wait {
  /** Who creates it: the API key, as `<namespace>/<name>`. */
  owner: string;
  /** The UUID of a request that can be repeated. */
  requestId?: string;
  /** A name and a tag, for a version of a named snapshot. @default a checkpoint without a name */
  name?: { name: string; tag: string };
  /** Whether the named snapshot must not exist, also if others create it meanwhile. @default it gets another version */
  isNew?: boolean;
  /** @default those of the sandbox */
  contents?: ("memory" | "filesystem")[];
  /** Whether to capture all volumes at the same moment. @default those of the sandbox's contents */
  volumes?: boolean;
  /** @default true */
  keepRunning?: boolean;
  /** Like `30m`. @default never deleted */
  ttl?: string;
  /** What people read about it. The title is no object name. */
  title?: string;
  description?: string;
  /** When it is deleted. It can be changed. */
  expiresAt?: Date;
  /** Whether a paused sandbox is captured too, which shares the data of its pause. @default it is unknown */
  allowsPaused?: boolean;
}

/** A captured state from which clients create sandboxes: a checkpoint, or a version of a named snapshot. */
export interface Snapshot {
  /**
   * The id of the checkpoint, or a reference to the version. It names this snapshot only, whatever a name refers to later: a named
   * snapshot that is created again begins with version 1, so the reference has the digest.
   */
  id: string;
  checkpoint: Checkpoint;
  /** RFC 3339. */
  createdAt: string;
  named?: {
    name: string;
    version: number;
    /** Whether the name alone refers to this version. */
    isCurrent: boolean;
    tags: readonly string[];
  };
}

/**
 * Captures a running sandbox, and a paused one where that is allowed.
 * @throws RametError `NotFound` if it has ended; `Conflict` if it is being deleted or paused; `Timeout`; the
 *   error of the capture
 */
export async function createSnapshot(parts: ServiceParts, sandbox: Sandbox, create: CreateSnapshot): Promise<Snapshot> {
  await checkCapturable(parts, sandbox, create);
  const checkpoint = await capture(parts.objects, snapshotOf(sandbox, create), create);
  if (create.name === undefined) return unnamed(checkpoint);
  const snapshot = await nameCheckpoint(parts, { checkpoint, ...create.name }, create);
  await untilSnapshotKnown(parts, snapshot, create.signal);
  const version = snapshot.status?.versions?.find(builtFrom(checkpoint));
  if (version === undefined)
    throw new RametError("Conflict", `The version of the snapshot ${create.name.name} was deleted`);
  return named(snapshot, version, checkpoint);
}

export function unnamed(checkpoint: Checkpoint): Snapshot {
  const { metadata, status } = checkpoint;
  return { id: status?.checkpointId ?? "", checkpoint, createdAt: metadata.creationTimestamp };
}

function named(
  snapshot: NamedSnapshot,
  { version, digest, createdAt }: SnapshotVersion,
  checkpoint: Checkpoint,
): Snapshot {
  const { name } = snapshot.metadata;
  const tags = Object.entries(tagsOf(snapshot)).flatMap(([tag, each]) => (each === version ? [tag] : []));
  const isCurrent = snapshot.status?.version === version;
  const id = printSnapshotReference({ name, digest });
  return { id, checkpoint, createdAt, named: { name, version, isCurrent, tags } };
}

function builtFrom({ status }: Checkpoint): (version: SnapshotVersion) => boolean {
  return ({ parent }) => parent === `checkpoint/${status?.checkpointId ?? ""}`;
}

async function checkCapturable(parts: ServiceParts, sandbox: Sandbox, create: CreateSnapshot): Promise<void> {
  const { name } = sandbox.metadata;
  const state = await verifiedState(parts, sandbox, create.signal, ["running", "starting", "snapshotting"]);
  if (state === "ended" || (state === "paused" && create.allowsPaused !== true)) throw unknown(name);
  if (state === "pausing") throw new RametError("Conflict", `The sandbox ${name} is being paused`);
  if (state === "killing") throw new RametError("Conflict", `The sandbox ${name} is being deleted`);
}

/** The Checkpoint of a sandbox that a client requests. */
export function snapshotOf(
  { metadata: { name, namespace, uid } }: Sandbox,
  create: Omit<CreateSnapshot, keyof Wait>,
): CheckpointManifest {
  const { owner, name: given, contents, volumes, keepRunning, ttl, title, description, expiresAt } = create;
  const texts = {
    [annotations.lock]: create.requestId,
    [annotations.displayName]: title,
    [annotations.description]: description,
    [annotations.expiresAt]: expiresAt?.toISOString(),
  };
  return {
    apiVersion,
    kind: "Checkpoint",
    metadata: {
      generateName: `${name.slice(0, 50)}-`,
      namespace,
      labels: defined({ [labels.sourceUid]: uid, [labels.sourceOf]: given?.name }),
      annotations: { [annotations.owner]: owner, [annotations.waitsTurn]: "true", ...defined(texts) },
    },
    spec: {
      sandboxName: name,
      ...defined({ persistentContents: contents }),
      ...(volumes === true && { volumes: [allVolumes], consistency: "atomic" }),
      ...defined({ keepRunning, ttlAfterFinished: ttl }),
    },
  };
}

/** Makes a checkpoint the current version of a named snapshot, which is created if it does not exist. */
async function nameCheckpoint(
  parts: ServiceParts,
  { checkpoint, name, tag }: { checkpoint: Checkpoint; name: string; tag: string },
  create: CreateSnapshot,
): Promise<NamedSnapshot> {
  const { signal } = create;
  const { namespace } = checkpoint.metadata;
  const { built, version } = await untilVersion(parts, { checkpoint, name }, create).catch(async (error: unknown) => {
    await parts.objects.checkpoints.remove(checkpoint).catch(() => undefined);
    throw error;
  });
  await deleteSources(parts, built, checkpoint);
  if (tag === defaultTag) return built;
  return changeTags(parts, { namespace, name, signal }, (current) => ({ ...tagsOf(current), [tag]: version }));
}

/**
 * Requests a version of a named snapshot until it is built.
 * @throws RametError `Conflict` if the snapshot builds nothing; `Timeout`; the error of the build
 */
export async function untilVersion(
  parts: VersionParts & Pick<ServiceParts, "clock">,
  { checkpoint, name }: { checkpoint: Checkpoint; name: string },
  create: Pick<CreateSnapshot, "owner" | "isNew" | keyof Wait>,
): Promise<{ built: NamedSnapshot; version: number }> {
  const { signal } = create;
  const deadline = parts.clock.monotonicMilliseconds() + create.timeoutMilliseconds;
  for (;;) {
    const written = await retryConflicts(() => requestVersion(parts, { checkpoint, name }, create));
    const timeoutMilliseconds = deadline - parts.clock.monotonicMilliseconds();
    if (timeoutMilliseconds <= 0) throw notNamed("Timeout", name, "its version was not built in time");
    const built = objectOf(await awaitBuild(parts.objects.snapshots, written, { timeoutMilliseconds, signal }));
    const version = built.status?.versions?.find(builtFrom(checkpoint))?.version;
    if (version !== undefined) return { built, version };
    const isRequested = built.spec.from.checkpoint?.id === checkpoint.status?.checkpointId;
    if (isRequested && snapshotState(built).is === "held")
      throw notNamed("Conflict", name, "it is suspended or pinned, and builds nothing");
    // Another request has replaced the source before this version was built. That version is built now.
  }
}

function notNamed(code: "Conflict" | "Timeout", name: string, why: string): RametError {
  const what = `The sandbox was not captured as a version of the snapshot ${name}: ${why}`;
  return new RametError(code, what, code === "Conflict" ? { hint: "Let an administrator resume its builds" } : {});
}

/** A client expects each id that it has got to name the same snapshot until it deletes that. */
const mostVersions = 100;

interface VersionParts {
  objects: Pick<ServiceParts["objects"], "snapshots">;
  known: Pick<ServiceParts["known"], "snapshot">;
  informers: { snapshots: { resource: Pick<ServiceParts["informers"]["snapshots"]["resource"], "find"> } };
}

async function requestVersion(
  { informers, known, objects: { snapshots } }: VersionParts,
  { checkpoint: { metadata, status }, name }: { checkpoint: Checkpoint; name: string },
  { owner, isNew, signal }: Pick<CreateSnapshot, "owner" | "isNew" | "signal">,
): Promise<NamedSnapshot> {
  const at = { namespace: metadata.namespace, name };
  const existing =
    known.snapshot(`${at.namespace}/${name}`) ?? (await informers.snapshots.resource.find(at, { signal }));
  refuseOtherSources(existing, isNew === true ? status?.checkpointId : undefined);
  const spec = {
    from: { checkpoint: { id: status?.checkpointId ?? "" } },
    contents: status?.ramet?.contents ?? ["memory", "filesystem"],
    keepVersions: mostVersions,
    deletionPolicy: "Delete",
  };
  const marks = {
    labels: { [labels.sourceUid]: metadata.labels?.[labels.sourceUid] ?? "" },
    annotations: { [annotations.owner]: owner },
  };
  // The deletion of the current version may have pinned an earlier one.
  const change = { metadata: marks, spec: { ...spec, pinnedVersion: null } };
  if (existing !== undefined) return snapshots.patch(existing, change, signal);
  const manifest = { apiVersion: rametApiVersion, kind: "NamedSnapshot", metadata: { ...at, ...marks }, spec };
  return snapshots.create(manifest, signal).catch((cause: unknown) => {
    // Another request has created it since.
    if (RametError.from(cause).code !== "AlreadyExists") throw cause;
    throw new RametError("Conflict", `The named snapshot ${name} was created at the same time`, { cause });
  });
}

/** @param only the checkpoint of a snapshot that has to be new @default any checkpoint */
function refuseOtherSources(existing: NamedSnapshot | undefined, only?: string): void {
  const { from } = existing?.spec ?? {};
  if (from === undefined || (from.checkpoint !== undefined && from.checkpoint.id === (only ?? from.checkpoint.id)))
    return;
  const why = only === undefined ? "is built from other sources than sandboxes" : "exists";
  throw new RametError("AlreadyExists", `The named snapshot ${existing?.metadata.name ?? ""} ${why}`, {
    hint: "Choose another name",
  });
}

/**
 * Deletes the checkpoints from which versions of a named snapshot were built: each version has a checkpoint of its own. One that
 * cannot be deleted now is deleted with the next version. Those of requests that are about to build a version are kept.
 * @param kept the one that holds the data of the current version
 */
export async function deleteSources(
  parts: SourceParts & Pick<ServiceParts, "clock">,
  snapshot: NamedSnapshot,
  kept?: Checkpoint,
): Promise<void> {
  const isUnneeded = (source: Checkpoint): boolean => {
    const { metadata } = source;
    if (metadata.uid === kept?.metadata.uid) return false;
    const isBuilt = snapshot.status?.versions?.some(builtFrom(source)) ?? false;
    return isBuilt || parts.clock.now().getTime() - Date.parse(metadata.creationTimestamp) > longestRequestMilliseconds;
  };
  await removeSources(parts, sourcesOf(parts, snapshot).filter(isUnneeded));
}

/** Deletes the sources of a snapshot that is deleted: no version is built from them any more. */
export async function deleteAllSources(parts: SourceParts, snapshot: NamedSnapshot): Promise<void> {
  await removeSources(parts, sourcesOf(parts, snapshot));
}

interface SourceParts {
  objects: Pick<ServiceParts["objects"], "checkpoints">;
  known: Pick<ServiceParts["known"], "checkpointsIn">;
}

function sourcesOf({ known }: SourceParts, { metadata }: NamedSnapshot): Checkpoint[] {
  const { namespace, name } = metadata;
  return known.checkpointsIn(namespace).filter((each) => each.metadata.labels?.[labels.sourceOf] === name);
}

async function removeSources({ objects }: SourceParts, sources: Checkpoint[]): Promise<void> {
  await Promise.all(sources.map((each) => objects.checkpoints.remove(each).catch(() => false)));
}

const longestRequestMilliseconds = 3_600_000;

/** All snapshots of a namespace that clients can use, newest first. @param sourceUid only those of this sandbox */
export function listSnapshots(
  { known, clock }: Pick<ServiceParts, "known" | "clock">,
  namespace: string,
  { sourceUid, name }: { sourceUid?: string | undefined; name?: string | undefined } = {},
): Snapshot[] {
  const isListed = (checkpoint: Checkpoint): boolean =>
    checkpoint.metadata.deletionTimestamp === undefined &&
    !hasExpired({ clock }, checkpoint) &&
    (sourceUid === undefined || checkpoint.metadata.labels?.[labels.sourceUid] === sourceUid);
  const keptOf = ({ checkpointId }: SnapshotVersion): Checkpoint | undefined => {
    const checkpoint = known.checkpointById(namespace, checkpointId);
    return checkpoint !== undefined && isListed(checkpoint) ? checkpoint : undefined;
  };
  const versions = known
    .snapshotsIn(namespace)
    .filter(({ metadata }) => metadata.deletionTimestamp === undefined)
    .flatMap((snapshot) => {
      const all = snapshot.status?.versions ?? [];
      const replaced = new Set(all.flatMap(({ replaces = [] }) => replaces));
      return all.flatMap((each) => {
        const checkpoint = replaced.has(each.version) ? undefined : keptOf(each);
        return checkpoint === undefined ? [] : [named(snapshot, each, checkpoint)];
      });
    });
  const checkpoints = known
    .checkpointsIn(namespace)
    .filter(({ metadata, status }) => status?.phase === "Succeeded" && metadata.labels?.[labels.purpose] === undefined)
    .filter(({ metadata }) => metadata.labels?.[labels.sourceOf] === undefined);
  return [...versions, ...checkpoints.filter(isListed).map(unnamed)]
    .filter((each) => name === undefined || (each.named?.name ?? each.id) === name)
    .toSorted((a, b) => Date.parse(b.createdAt) - Date.parse(a.createdAt) || a.id.localeCompare(b.id));
}

/** The sizes of all snapshots that a key has created, in bytes, its Checkpoints, and how many of these have not ended. */
export function snapshotsOf(
  { known }: Pick<ServiceParts, "known">,
  namespace: string,
  owner: string,
): { sizes: number[]; unfinished: number; checkpoints: Checkpoint[] } {
  const isOwn = ({ metadata }: Checkpoint | NamedSnapshot): boolean =>
    metadata.annotations?.[annotations.owner] === owner;
  // Each version of a named snapshot has a checkpoint of its own, which the controllers create.
  const snapshots = known.snapshotsIn(namespace).filter(isOwn);
  const checkpoints = known.checkpointsIn(namespace).filter(isOwn);
  const sizes = [
    ...snapshots.flatMap(({ status }) => status?.versions ?? []),
    ...checkpoints.map(({ status }) => status?.ramet ?? {}),
  ].flatMap(({ sizeBytes = 0 }) => (sizeBytes > 0 ? [sizeBytes] : []));
  return { sizes, unfinished: checkpoints.filter(isUnfinished).length, checkpoints };
}
