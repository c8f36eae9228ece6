import type { Checkpoint, CheckpointManifest } from "../../api/kinds/checkpoint.ts";
import { allVolumes } from "../../api/kinds/sandbox-parts.ts";
import type { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { annotations, labels } from "../../api/names/labels.ts";
import { apiVersion, rametApiVersion } from "../../api/schema/kind.ts";
import { defaultTag, tagsAnnotation, tagsOf } from "../../api/snapshot/snapshot-tags.ts";
import { objectNameOf } from "../../api/names/client-names.ts";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import type { Followers } from "../../kube/followers.ts";
import type { Informer } from "../../kube/informer.ts";
import type { KubeObject } from "../../kube/object.ts";
import { waitUntil } from "../../kube/wait-until.ts";
import { capture } from "../../operations/capture.ts";
import type { Wait } from "../../operations/objects.ts";
import { untilShownDeleted, untilSnapshotKnown } from "./cache-lag.ts";
import { unknown } from "./find-sandbox.ts";
import { untilCaptured, verifiedState } from "./lifecycle.ts";
import type { ServiceParts } from "./parts.ts";
import { currentSource } from "./source.ts";

export interface CreateSnapshot extends Wait {
  /** Who creates it: the API key, as `<namespace>/<name>`. */
  owner: string;
  /** A name and a tag, for a version of a named snapshot. @default a checkpoint without a name */
  name?: { name: string; tag: string };
  /** @default those of the sandbox */
  contents?: ("memory" | "filesystem")[];
  /** Whether to capture all volumes at the same moment. @default those of the sandbox's contents */
  volumes?: boolean;
  /** @default true */
  keepRunning?: boolean;
  /** Like `30m`. @default never deleted */
  ttl?: string;
}

/** A captured state from which clients create sandboxes: a checkpoint, or the current version of a named snapshot. */
export type Snapshot =
  { kind: "checkpoint"; id: string; checkpoint: Checkpoint } | { kind: "named"; name: string; snapshot: NamedSnapshot };

/**
 * Captures a running sandbox.
 * @throws RametError `NotFound` if it is paused or has ended; `Conflict` if it is being deleted or paused, or while another capture
 *   is in progress, after that has ended; `Timeout`; the error of the capture
 */
export async function createSnapshot(parts: ServiceParts, sandbox: Sandbox, create: CreateSnapshot): Promise<Snapshot> {
  await checkCapturable(parts, sandbox, create);
  const checkpoint = await capture(parts.objects, snapshotOf(sandbox, create), create);
  const id = checkpoint.status?.checkpointId ?? "";
  if (create.name === undefined) return { kind: "checkpoint", id, checkpoint };
  const { name, tag } = create.name;
  const snapshot = await nameCheckpoint(parts, { checkpoint, id, name, tag }, create);
  await untilSnapshotKnown(parts, snapshot, create.signal);
  return { kind: "named", name, snapshot };
}

async function checkCapturable(parts: ServiceParts, sandbox: Sandbox, create: CreateSnapshot): Promise<void> {
  const { name } = sandbox.metadata;
  const state = await verifiedState(parts, sandbox, create.signal, ["running", "starting", "snapshotting"]);
  if (state === "paused" || state === "ended") throw unknown(name);
  if (state === "pausing") throw new RametError("Conflict", `The sandbox ${name} is being paused`);
  if (state === "killing") throw new RametError("Conflict", `The sandbox ${name} is being deleted`);
  if (state !== "snapshotting") return;
  await untilCaptured(parts, sandbox, create);
  throw new RametError("Conflict", `Another snapshot of the sandbox ${name} was created at the same time`);
}

/** The Checkpoint of a sandbox that a client requests. */
export function snapshotOf(
  { metadata: { name, namespace, uid } }: Sandbox,
  { owner, name: given, contents, volumes, keepRunning, ttl }: Omit<CreateSnapshot, keyof Wait>,
): CheckpointManifest {
  return {
    apiVersion,
    kind: "Checkpoint",
    metadata: {
      generateName: `${name.slice(0, 50)}-`,
      namespace,
      labels: defined({ [labels.sourceUid]: uid, [labels.sourceOf]: given?.name }),
      annotations: { [annotations.owner]: owner },
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
  { checkpoint, id, name, tag }: { checkpoint: Checkpoint; id: string; name: string; tag: string },
  { owner, timeoutMilliseconds, signal }: CreateSnapshot,
): Promise<NamedSnapshot> {
  const { namespace, labels: own } = checkpoint.metadata;
  const { informers, known } = parts;
  const { resource } = informers.snapshots;
  const existing = known.snapshot(`${namespace}/${name}`) ?? (await resource.find({ namespace, name }, { signal }));
  refuseOtherSources(existing);
  const contents = checkpoint.status?.ramet?.contents ?? ["memory", "filesystem"];
  const marks = {
    labels: { [labels.sourceUid]: own?.[labels.sourceUid] ?? "" },
    annotations: { [annotations.owner]: owner },
  };
  const manifest = {
    apiVersion: rametApiVersion,
    kind: "NamedSnapshot",
    metadata: { name, namespace, ...marks },
    spec: { from: { checkpoint: { id } }, contents, deletionPolicy: "Delete" },
  };
  const written =
    existing === undefined
      ? await resource.create(manifest, { signal })
      : await resource.mergePatch(
          { namespace, name },
          { metadata: { ...marks, uid: existing.metadata.uid }, spec: manifest.spec },
          { signal },
        );
  const until = (snapshot: NamedSnapshot | undefined): boolean => isServed(snapshot, id);
  const ready = await waitUntil({ resource, from: written, until, timeoutMilliseconds, signal });
  const served = ready ?? written;
  await deleteSources(parts, served, (each) => each.metadata.uid === checkpoint.metadata.uid);
  if (tag === defaultTag || served.status?.version === undefined) return served;
  const tags = tagsAnnotation({ ...tagsOf(served), [tag]: served.status.version });
  return resource.mergePatch({ namespace, name }, { metadata: { uid: served.metadata.uid, annotations: tags } });
}

function refuseOtherSources(existing: NamedSnapshot | undefined): void {
  if (existing === undefined || existing.spec.from.checkpoint !== undefined) return;
  const { name } = existing.metadata;
  throw new RametError("AlreadyExists", `The named snapshot ${name} is built from other sources than sandboxes`, {
    hint: "Choose another name",
  });
}

/** Whether the current version was built from a checkpoint. @throws RametError if that failed */
function isServed(snapshot: NamedSnapshot | undefined, checkpointId: string): boolean {
  if (snapshot === undefined) throw new RametError("Conflict", "The named snapshot was deleted");
  const { status, metadata } = snapshot;
  const current = status?.versions?.find(({ version }) => version === status.version);
  if (current?.parent === `checkpoint/${checkpointId}`) return true;
  const failure = status?.observedGeneration === metadata.generation ? status?.build?.failure : undefined;
  if (failure === undefined) return false;
  throw new RametError("EngineFailed", `The snapshot ${metadata.name} was not built: ${failure.message}`);
}

/**
 * Deletes the checkpoints from which earlier versions of a named snapshot were built: each version has a checkpoint of its own. One
 * that cannot be deleted now is deleted with the next version.
 */
async function deleteSources(
  { informers, known }: ServiceParts,
  { metadata: { namespace, name } }: NamedSnapshot,
  isNeeded: (checkpoint: Checkpoint) => boolean,
): Promise<void> {
  const sources = known
    .checkpointsIn(namespace)
    .filter((each) => each.metadata.labels?.[labels.sourceOf] === name && !isNeeded(each));
  const { resource } = informers.checkpoints;
  await Promise.all(sources.map(({ metadata }) => resource.delete(metadata, { uid: metadata.uid }).catch(() => false)));
}

/** All snapshots of a namespace that clients can use, newest first. @param sourceUid only those of this sandbox */
export function listSnapshots(
  { known }: Pick<ServiceParts, "known">,
  namespace: string,
  { sourceUid, name }: { sourceUid?: string | undefined; name?: string | undefined } = {},
): Snapshot[] {
  const isListed = ({ metadata }: Checkpoint | NamedSnapshot): boolean =>
    metadata.deletionTimestamp === undefined &&
    (sourceUid === undefined || metadata.labels?.[labels.sourceUid] === sourceUid);
  const named = known.snapshotsIn(namespace).filter((snapshot) => snapshot.status?.version !== undefined);
  const checkpoints = known
    .checkpointsIn(namespace)
    .filter(({ metadata, status }) => status?.phase === "Succeeded" && metadata.labels?.[labels.purpose] === undefined)
    .filter(({ metadata }) => metadata.labels?.[labels.sourceOf] === undefined);
  const all: Snapshot[] = [
    ...named.filter(isListed).map((snapshot) => ({ kind: "named" as const, name: snapshot.metadata.name, snapshot })),
    ...checkpoints.filter(isListed).map((checkpoint) => ({
      kind: "checkpoint" as const,
      id: checkpoint.status?.checkpointId ?? "",
      checkpoint,
    })),
  ];
  return all
    .filter((snapshot) => name === undefined || (snapshot.kind === "named" ? snapshot.name : snapshot.id) === name)
    .toSorted((a, b) => createdAt(b).localeCompare(createdAt(a)) || idOf(a).localeCompare(idOf(b)));
}

/** The size of all snapshots that a key has created, in bytes. */
export function snapshotBytesOf({ known }: Pick<ServiceParts, "known">, namespace: string, owner: string): number {
  const isOwn = ({ metadata }: Checkpoint | NamedSnapshot): boolean =>
    metadata.annotations?.[annotations.owner] === owner;
  // Each version of a named snapshot has a checkpoint of its own, which the controllers create.
  const versions = known.snapshotsIn(namespace).filter(isOwn);
  const checkpoints = known.checkpointsIn(namespace).filter(isOwn);
  return [
    ...versions.flatMap(({ status }) => status?.versions?.map(({ sizeBytes = 0 }) => sizeBytes) ?? []),
    ...checkpoints.map(({ status }) => status?.ramet?.sizeBytes ?? 0),
  ].reduce((sum, size) => sum + size, 0);
}

/** RFC 3339. */
export function createdAt(snapshot: Snapshot): string {
  const { metadata } = snapshot.kind === "named" ? snapshot.snapshot : snapshot.checkpoint;
  return metadata.creationTimestamp;
}

export function idOf(snapshot: Snapshot): string {
  return snapshot.kind === "named" ? snapshot.name : snapshot.id;
}

/**
 * Deletes a snapshot: a checkpoint, or a named snapshot with all of its versions. Clones are not affected.
 * @throws RametError `NotFound`; `Forbidden` for a set or a template
 */
export async function deleteSnapshot(
  parts: ServiceParts,
  namespace: string,
  text: string,
  signal: AbortSignal,
): Promise<void> {
  const { informers, known } = parts;
  const unbuilt = known.snapshot(`${namespace}/${objectNameOf(text.replace(`${namespace}/`, ""))}`);
  if (unbuilt !== undefined && unbuilt.status?.version === undefined) {
    await remove(informers.snapshots, parts.snapshots, unbuilt, signal);
    return;
  }
  const source = await currentSource({ ...parts, aliases: new Map() }, namespace, text, signal);
  if (source.kind !== "checkpoint") {
    throw new RametError("Forbidden", `${text} is a ${source.kind}, which clients cannot delete`, {
      hint: "Delete it where it is declared: with Pulumi or kubectl",
    });
  }
  const { reference, checkpoint } = source;
  const snapshot = known.snapshot(`${namespace}/${reference.split("@")[0] ?? ""}`);
  const existed =
    snapshot === undefined
      ? checkpoint !== undefined && (await remove(informers.checkpoints, parts.checkpoints, checkpoint, signal))
      : await remove(informers.snapshots, parts.snapshots, snapshot, signal);
  if (!existed) throw new RametError("NotFound", `The snapshot ${text} does not exist`);
  if (snapshot !== undefined) await deleteSources(parts, snapshot, () => false);
}

/** Deletes an object, and shows that to the next request. @returns whether it existed */
async function remove<T extends KubeObject>(
  { resource }: Informer<T>,
  followers: Followers<T>,
  object: T,
  signal: AbortSignal,
): Promise<boolean> {
  const existed = await resource.delete(object.metadata, { uid: object.metadata.uid });
  await untilShownDeleted(followers, object, signal);
  return existed;
}
