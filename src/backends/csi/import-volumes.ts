import { isDeepStrictEqual } from "node:util";
import type { CheckpointPart } from "../../api/kinds/checkpoint.ts";
import type { ImportedVolume } from "../../api/kinds/volume-import.ts";
import { annotations, labels } from "../../api/names/labels.ts";
import { RametError, unlessCode } from "../../base/errors.ts";
import { quantityToBytes } from "../../base/quantity.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import type { KubeManifest } from "../../kube/object.ts";
import {
  type Snapshot,
  type SnapshotClass,
  type SnapshotContent,
  snapshotClassesIn,
  snapshotContentsIn,
  snapshotsIn,
} from "../../kube/volumes/snapshots.ts";
import type { Capture, CheckpointName, ImportVolumesRequest } from "../backend.ts";
import { type CapturedSnapshot, all, followSnapshot } from "./follow-snapshots.ts";
import {
  describedVolume,
  hasSameData,
  importedContent,
  importedSnapshot,
  isImported,
  isReleased,
  mayDeleteData,
} from "./release-data.ts";
import { isOrphaned, removeOrphan, removeSnapshot } from "./remove-snapshots.ts";
import { checkpointClass } from "./snapshot-class.ts";

export interface ImportTimeouts {
  /** How long a driver may take to report a snapshot that exists. */
  importMilliseconds: number;
  /** How long it may then take until the data can be restored. */
  readyMilliseconds: number;
}

/**
 * Makes snapshots that exist at CSI drivers those of a checkpoint: for each a content with its handle, and a VolumeSnapshot that is bound
 * to it. Names are deterministic, so a repeat finds what an earlier attempt has created. A failed import removes all of it, and never
 * the data.
 * @throws RametError `VolumeNotImported`; `NotSupported` without VolumeSnapshots or a class of the driver; `ImportsDisabled` without
 *   the right to create contents; `AlreadyExists`; `Unavailable` while the snapshot is being removed
 */
export async function importVolumes(
  client: KubeClient,
  request: ImportVolumesRequest,
  timeouts: ImportTimeouts,
): Promise<Capture> {
  const { name, volumes, takesOwnership, signal } = request;
  try {
    const classes = await classesOf(client);
    const imported = await all(
      volumes.map(async (volume) => {
        const found = await importVolume(client, { ...request, volume, classes }, timeouts);
        return { ...found, volume };
      }),
    );
    // Only now, because a failed import must not delete the data.
    if (takesOwnership) await all(imported.map(({ content }) => takeOver(client, content)));
    return { isDurable: true, parts: imported.map((one) => partOf(one, client.clock.now(), takesOwnership)) };
  } catch (error) {
    // A caller that no longer waits continues later, or removes the checkpoint.
    if (signal?.aborted !== true) await removeImports(client, name).catch(() => undefined);
    throw error;
  }
}

/** Removes what a checkpoint has imported, also where the VolumeSnapshot was changed, deleted or not created yet. */
export async function removeImports(client: KubeClient, { namespace, checkpointId }: CheckpointName): Promise<void> {
  const labelSelector = `${labels.checkpointId}=${checkpointId}`;
  const { items } = await snapshotContentsIn(client).list({ labelSelector });
  const own = items.filter((one) => isImported(one) && one.spec.volumeSnapshotRef.namespace === namespace);
  await all(own.map((content) => removeImport(client, content)));
}

async function removeImport(client: KubeClient, content: SnapshotContent): Promise<void> {
  const { namespace, name = "", uid } = content.spec.volumeSnapshotRef;
  const snapshot = await snapshotsIn(client).find({ namespace, name });
  if (snapshot !== undefined && uid === snapshot.metadata.uid) await removeSnapshot(client, snapshot);
  const left = await snapshotContentsIn(client).find(content.metadata);
  if (left?.metadata.uid === content.metadata.uid && isOrphaned(left)) await removeOrphan(client, left);
}

interface VolumeRequest extends Pick<ImportVolumesRequest, "name" | "volumes" | "signal"> {
  volume: ImportedVolume;
  classes: readonly SnapshotClass[];
}

async function importVolume(
  client: KubeClient,
  request: VolumeRequest,
  { importMilliseconds, readyMilliseconds }: ImportTimeouts,
): Promise<CapturedSnapshot> {
  const { name, volume, signal } = request;
  const className = checkpointClass(volume.driver, request.classes);
  const wanted = importedContent(name, volume, className);
  await assertImportable(client, volume);
  const content = await createContent(client, wanted);
  // A removal that began before the content existed may not have counted it.
  await assertImportable(client, volume);
  const manifest = importedSnapshot(name, { volume, ofVolumes: request.volumes.length }, className);
  const snapshot = await createSnapshot(client, manifest);
  const found = await followSnapshot(client, snapshot, {
    state: "captured",
    timeoutMilliseconds: importMilliseconds,
    signal,
  }).catch((error: unknown) => {
    throw notImported(volume, error);
  });
  verify(found, { volume, content });
  if (found.isReady) return found;
  return followSnapshot(client, found.snapshot, { state: "ready", timeoutMilliseconds: readyMilliseconds, signal });
}

async function classesOf(client: KubeClient): Promise<SnapshotClass[]> {
  const listed = await snapshotClassesIn(client).list().catch(unlessCode("NotFound"));
  if (listed !== undefined) return listed.items;
  throw new RametError("NotSupported", "Volumes cannot be imported in this cluster: it has no VolumeSnapshots", {
    hint: "Install the snapshot stack with SnapshotStack",
  });
}

/**
 * The snapshot-controller makes each VolumeSnapshot with the data of a group's member a part of the group, and deletes it with that.
 * @throws RametError `Unavailable`: the data may be deleted right now; `VolumeNotImported` for a member of a group of this cluster
 */
async function assertImportable(client: KubeClient, volume: ImportedVolume): Promise<void> {
  const { driver, snapshotHandle } = volume;
  const like = { spec: { driver, source: { snapshotHandle } } } as SnapshotContent;
  const same = (await snapshotContentsIn(client).list()).items.filter((one) => hasSameData(like, one));
  // An import has no group here, although its driver may report that of another cluster.
  const groups = same.flatMap((one) => (isImported(one) ? [] : (one.status?.volumeGroupSnapshotHandle ?? [])));
  if (groups[0] !== undefined)
    throw notImported(volume, `it is a member of the group ${groups[0]}, and would be deleted with it`);
  if (!same.some(mayDeleteData)) return;
  throw new RametError("Unavailable", `The snapshot ${snapshotHandle} is being removed by another checkpoint`, {
    retryable: true,
  });
}

async function createContent(client: KubeClient, manifest: KubeManifest): Promise<SnapshotContent> {
  const contents = snapshotContentsIn(client);
  const creating = contents.create(manifest).catch((thrown: unknown) => {
    const error = RametError.from(thrown);
    throw error.code === "Forbidden" ? disabled(error) : error;
  });
  const created = await creating.catch(unlessCode("AlreadyExists"));
  if (created !== undefined) return created;
  const found = await contents.get({ name: manifest.metadata.name ?? "" });
  if (isReleased(found)) throw beingRemoved("VolumeSnapshotContent", found);
  const wanted = manifest as unknown as Pick<SnapshotContent, "spec">;
  const { driver, source } = found.spec;
  if (driver === wanted.spec.driver && source?.snapshotHandle === wanted.spec.source?.snapshotHandle) return found;
  throw exists("VolumeSnapshotContent", found);
}

async function createSnapshot(client: KubeClient, manifest: KubeManifest): Promise<Snapshot> {
  const snapshots = snapshotsIn(client);
  const created = await snapshots.create(manifest).catch(unlessCode("AlreadyExists"));
  if (created !== undefined) return created;
  const { namespace, name = "" } = manifest.metadata;
  const found = await snapshots.get({ namespace, name });
  if (found.metadata.deletionTimestamp !== undefined) throw beingRemoved("VolumeSnapshot", found);
  const wanted = manifest as unknown as Pick<Snapshot, "metadata" | "spec">;
  const record = annotations.capturedVolume;
  const isSame =
    isDeepStrictEqual(found.spec?.source, wanted.spec?.source) &&
    found.metadata.annotations?.[record] === wanted.metadata.annotations?.[record];
  if (isSame) return found;
  throw exists("VolumeSnapshot", found);
}

/** @throws RametError `VolumeNotImported` if the VolumeSnapshot is bound to another snapshot than the requested one */
function verify(
  { snapshot, content }: CapturedSnapshot,
  { volume, content: own }: { volume: ImportedVolume; content: SnapshotContent },
): void {
  const { driver, source } = content.spec;
  const isOwn = content.metadata.uid === own.metadata.uid && driver === volume.driver;
  const { snapshotHandle: handle } = volume;
  if (!isOwn || source?.snapshotHandle !== handle || content.status?.snapshotHandle !== handle)
    throw notImported(volume, "its VolumeSnapshot is bound to another one");
  const size = sizeOf(snapshot);
  if (volume.sizeBytes === undefined || size === 0 || size === volume.sizeBytes) return;
  throw notImported(volume, `its driver reports ${size} bytes, and the import says ${volume.sizeBytes}`);
}

/** 0: the driver does not report it. */
function sizeOf({ status }: Snapshot): number {
  return status?.restoreSize === undefined ? 0 : quantityToBytes(status.restoreSize, "restoreSize");
}

async function takeOver(client: KubeClient, { metadata }: SnapshotContent): Promise<void> {
  const { uid } = metadata;
  await snapshotContentsIn(client).mergePatch(metadata, {
    metadata: { uid, annotations: { [annotations.ownsData]: "true" } },
  });
}

function partOf(
  { snapshot, capturedAt, volume }: CapturedSnapshot & { volume: ImportedVolume },
  now: Date,
  takesOwnership: boolean,
): CheckpointPart {
  return {
    backend: "csi",
    handle: volume.snapshotHandle,
    contents: ["volumes"],
    cutAt: volume.cutAt ?? capturedAt,
    readyAt: now.toISOString(),
    sizeBytes: sizeOf(snapshot) || (volume.sizeBytes ?? 0),
    consistency: volume.consistency ?? "crash",
    volume: {
      ...describedVolume(volume),
      snapshot: snapshot.metadata.name,
      imported: takesOwnership ? "Owned" : "Kept",
    },
  };
}

function notImported({ snapshotHandle, driver }: ImportedVolume, thrown: unknown): RametError {
  const error = typeof thrown === "string" ? undefined : RametError.from(thrown);
  if (error !== undefined && error.code !== "VolumeNotCaptured" && error.code !== "CheckpointLost") return error;
  const why = error?.message ?? String(thrown);
  return new RametError(
    "VolumeNotImported",
    `The snapshot ${snapshotHandle} of the CSI driver ${driver} cannot be imported: ${why}`,
    { hint: "Check the handle and the driver, and that the driver can read the snapshot", cause: error },
  );
}

function disabled(cause: RametError): RametError {
  return new RametError("ImportsDisabled", "The controllers may not create VolumeSnapshotContents", {
    hint: "Install with --import-volumes",
    cause,
  });
}

function exists(kind: string, { metadata: { name } }: Snapshot | SnapshotContent): RametError {
  return new RametError("AlreadyExists", `The ${kind} ${name} exists and is not of this import`, {
    hint: "Delete it, then create another Checkpoint",
  });
}

function beingRemoved(kind: string, { metadata: { name } }: Snapshot | SnapshotContent): RametError {
  return new RametError("Unavailable", `The ${kind} ${name} of an earlier attempt is still being removed`, {
    retryable: true,
  });
}
