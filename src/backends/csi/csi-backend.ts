import type { VolumeSnapshotRequest } from "../../api/kinds/checkpoint-spec.ts";
import type { CapturedVolume, CheckpointPart } from "../../api/kinds/checkpoint.ts";
import { defined } from "../../base/defined.ts";
import { RametError, unlessCode } from "../../base/errors.ts";
import { quantityToBytes } from "../../base/quantity.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import { type GroupSnapshot, type Snapshot, snapshotClassesIn, snapshotsIn } from "../../kube/volumes/snapshots.ts";
import type { Backend, Capture, CaptureRequest, CheckpointName } from "../backend.ts";
import {
  type CapturableVolume,
  capturedVolume,
  hasRequestedName,
  numberOfVolumes,
  snapshotManifest,
  volumesToCapture,
} from "./captured-volume.ts";
import { fillClaim } from "./fill-claim.ts";
import { type CapturedSnapshot, type Wanted, all, followSnapshot, stateOfSnapshot } from "./follow-snapshots.ts";
import { type CapturedGroups, Refusals, captureGroups, discardGroups } from "./groups/capture-groups.ts";
import { type FoundGroup, findGroups } from "./groups/find-groups.ts";
import { readyMembers } from "./groups/follow-group.ts";
import { removeGroups } from "./groups/remove-group.ts";
import { importVolumes, removeImports } from "./import-volumes.ts";
import { removeSnapshot, setDeletionPolicy, snapshotsOf } from "./remove-snapshots.ts";
import { checkpointClass, requestedClass } from "./snapshot-class.ts";
import { sweepSnapshots } from "./sweep-snapshots.ts";

export interface CsiBackendOptions {
  client: KubeClient;
  /** How long a driver may take until the data is fixed. @default 600000 */
  captureMilliseconds?: number;
  /**
   * How long the programs that take VolumeGroupSnapshots may take until they begin. Then the volumes are captured one by one.
   * @default 10000
   */
  beginMilliseconds?: number;
  /** How long a driver may then take until the data can be restored: a cloud uploads it first. @default 21600000 */
  readyMilliseconds?: number;
  /** How long a driver may take to report a snapshot that is imported. @default 60000 */
  importMilliseconds?: number;
  /** The only namespaces to sweep. @default all */
  namespaces?: readonly string[] | undefined;
  /** A sweep leaves what is younger alone. @default 600000 */
  sweepOlderThanMilliseconds?: number;
}

/**
 * Captures the PersistentVolumeClaims of a sandbox by CSI: one VolumeGroupSnapshot for those of one driver where that is possible,
 * and one VolumeSnapshot for each other claim. The Checkpoint is the owner of record of the data, so each content keeps its data until `remove`. Part handles are those of the driver.
 */
export function csiBackend(options: CsiBackendOptions): Backend {
  const {
    client,
    namespaces,
    captureMilliseconds = 600_000,
    beginMilliseconds = 10_000,
    readyMilliseconds = 21_600_000,
    importMilliseconds = 60_000,
    sweepOlderThanMilliseconds: olderThanMilliseconds = 600_000,
  } = options;
  /** The sandboxes that are being captured, with the checkpoint of each. */
  const capturing = new Map<string, string>();
  const refusals = new Refusals(client);

  /** A cluster without the kind has no VolumeSnapshots. */
  const snapshotsIfServed = async (name: CheckpointName) =>
    (await snapshotsOf(client, name).catch(unlessCode("NotFound"))) ?? [];

  async function capture({ name, source, volumeSnapshot = {}, signal }: CaptureRequest): Promise<Capture> {
    const volumes = await volumesToCapture(client, name.namespace, source.claims);
    const created = { snapshots: new Map<string, Snapshot>(), groups: new Map<string, GroupSnapshot>() };
    try {
      const times = { beginMilliseconds, captureMilliseconds, signal };
      const { className } = volumeSnapshot;
      const groups =
        className === undefined
          ? await captureGroups({ client, name, volumes, created: created.groups, refusals, ...times })
          : { captured: [], left: volumes, note: `the VolumeSnapshotClass ${className} is requested` };
      const snapshots = await createSnapshots(client, name, { ...groups, volumes, volumeSnapshot }, created.snapshots);
      const wanted = { state: "captured", timeoutMilliseconds: captureMilliseconds, signal } as const;
      const captured = await keptSnapshots(client, name, snapshots, wanted);
      const details = groups.note === undefined ? {} : { details: { groupNote: groups.note } };
      return { ...captureOf(client, [...groups.captured, ...captured]), ...details };
    } catch (error) {
      // A caller that no longer waits continues later. Any other error ends the capture, of which nothing may remain.
      if (signal?.aborted !== true) await discard(client, name, created);
      throw error;
    }
  }

  return {
    name: "csi",
    async probe() {
      const problem = await problemOf(client);
      return { contents: problem === undefined ? [["volumes"]] : [], ...defined({ problem }) };
    },
    async capture(request) {
      const { name, source } = request;
      const other = capturing.get(source.uid);
      if (other !== undefined && other !== name.checkpointId) throw inProgress(source.name, other);
      capturing.set(source.uid, name.checkpointId);
      try {
        return await capture(request);
      } finally {
        capturing.delete(source.uid);
      }
    },
    async whenReady(name) {
      const snapshots = await snapshotsIfServed(name);
      const found = await findGroups(client, name);
      const missing = missingOf(snapshots, found?.groups);
      if (missing !== undefined) throw lost(name, missing);
      const wanted = { state: "ready", timeoutMilliseconds: readyMilliseconds } as const;
      const members = found === undefined ? [] : await readyMembers({ client, name, ...found }, wanted);
      return captureOf(client, [...members, ...(await keptSnapshots(client, name, snapshots, wanted))]);
    },
    // The claims of the clone were filled before its Pod started.
    clone: () => Promise.resolve({ phases: {} }),
    restoreInPlace: ({ target }) =>
      Promise.reject(
        new RametError("NotSupported", `The volumes of ${target.name} cannot be replaced while it runs`, {
          hint: "Create a clone of the checkpoint",
        }),
      ),
    fillClaim: (request) => fillClaim(client, request),
    importVolumes: (request) => importVolumes(client, request, { importMilliseconds, readyMilliseconds }),
    untilLoaded: () => Promise.resolve(),
    async remove(name) {
      const snapshots = await snapshotsIfServed(name);
      await all([...snapshots.map((one) => removeSnapshot(client, one)), removeGroups(client, name)]);
      await removeImports(client, name).catch(unlessCode("NotFound"));
    },
    sweep: (liveness, signal) => sweepSnapshots({ client, namespaces, olderThanMilliseconds, liveness, signal }),
  };
}

/**
 * Creates what does not exist yet of the VolumeSnapshots of a checkpoint.
 * @param created gets those that did not exist, by UID
 */
async function createSnapshots(
  client: KubeClient,
  name: CheckpointName,
  { volumes, left, note: groupNote, volumeSnapshot }: SnapshotsToCreate,
  created: Map<string, Snapshot>,
): Promise<Snapshot[]> {
  if (left.length === 0) return [];
  const { items: classes } = await snapshotClassesIn(client).list();
  const { className } = volumeSnapshot;
  const common = {
    ofVolumes: volumes.length,
    groupNote,
    ...(volumes.length === 1 && defined({ name: volumeSnapshot.name })),
  };
  const classOf = ({ driver }: CapturableVolume): string =>
    className === undefined ? checkpointClass(driver, classes) : requestedClass(className, driver, classes);
  const manifests = left.map((one) => snapshotManifest(name, { ...one, ...common }, classOf(one)));
  const snapshots = snapshotsIn(client);
  return all(
    manifests.map(async (manifest) => {
      const made = await snapshots.create(manifest).catch(unlessCode("AlreadyExists"));
      if (made === undefined)
        return usable(name, await snapshots.get({ namespace: name.namespace, name: manifest.metadata.name ?? "" }));
      created.set(made.metadata.uid, made);
      return made;
    }),
  );
}

interface SnapshotsToCreate extends Pick<CapturedGroups, "left" | "note"> {
  volumes: readonly CapturableVolume[];
  volumeSnapshot: VolumeSnapshotRequest;
}

/** A VolumeSnapshot that an earlier attempt created. @throws RametError `AlreadyExists`; `Conflict` while it is deleted */
function usable(name: CheckpointName, snapshot: Snapshot): Snapshot {
  const { metadata } = snapshot;
  if (capturedVolume(name, snapshot) === undefined)
    throw new RametError("AlreadyExists", `The VolumeSnapshot ${metadata.name} exists and is not of this checkpoint`, {
      hint: "Delete it, then create another Checkpoint",
    });
  if (metadata.deletionTimestamp === undefined) return snapshot;
  throw new RametError("Conflict", `The VolumeSnapshot ${metadata.name} of an earlier attempt is still being deleted`, {
    retryable: true,
  });
}

/** Waits until VolumeSnapshots are captured or ready, and lets their data be kept when they are deleted. */
async function keptSnapshots(
  client: KubeClient,
  name: CheckpointName,
  snapshots: readonly Snapshot[],
  wanted: Wanted,
): Promise<CapturedPart[]> {
  const captured = await all(snapshots.map((one) => followSnapshot(client, one, wanted)));
  // The sweep finds the content of a VolumeSnapshot with a requested name by a label.
  await all(
    captured.map(({ content, snapshot }) =>
      setDeletionPolicy(client, content, "Retain", hasRequestedName(snapshot) ? name : undefined),
    ),
  );
  return captured.map((one) => ({ ...one, volume: capturedVolume(name, one.snapshot) }));
}

/** A part before it is described. The volume is unknown if somebody has changed the record meanwhile. */
type CapturedPart = CapturedSnapshot & { volume: CapturedVolume | undefined };

function captureOf({ clock }: KubeClient, captured: readonly CapturedPart[]): Capture {
  return {
    parts: captured.map((one) => partOf(one, clock.now())),
    isDurable: captured.every(({ isReady }) => isReady),
  };
}

function partOf({ snapshot, content, capturedAt, isReady, volume }: CapturedPart, now: Date): CheckpointPart {
  const size = snapshot.status?.restoreSize;
  return {
    backend: "csi",
    handle: content.status?.snapshotHandle ?? "",
    contents: ["volumes"],
    cutAt: capturedAt,
    ...(isReady && { readyAt: now.toISOString() }),
    sizeBytes: size === undefined ? 0 : quantityToBytes(size, "restoreSize"),
    consistency: "crash",
    ...defined({ volume }),
  };
}

async function problemOf(client: KubeClient): Promise<RametError | undefined> {
  try {
    const listed = await snapshotClassesIn(client).list().catch(unlessCode("NotFound"));
    if (listed === undefined) return unsupported("it has no VolumeSnapshots");
    return listed.items.length > 0 ? undefined : unsupported("no CSI driver has a VolumeSnapshotClass");
  } catch (error) {
    return RametError.from(error);
  }
}

function unsupported(why: string): RametError {
  return new RametError("NotSupported", `Volumes cannot be captured in this cluster: ${why}`, {
    hint: "Install the snapshot stack with SnapshotStack, or leave volumes out of persistentContents",
  });
}

/**
 * Removes what a failed capture has created. Captures of an earlier attempt are kept: memory and files may have been captured
 * with them. The rest is removed with the Checkpoint.
 */
async function discard(
  client: KubeClient,
  name: CheckpointName,
  created: { snapshots: ReadonlyMap<string, Snapshot>; groups: ReadonlyMap<string, GroupSnapshot> },
): Promise<void> {
  const found = await snapshotsOf(client, name).catch(() => []);
  const unneeded = new Map(created.snapshots);
  for (const one of found) if (!("capturedAt" in stateOfSnapshot(one))) unneeded.set(one.metadata.uid, one);
  const removals = [...unneeded.values()].map((one) => removeSnapshot(client, one));
  await Promise.allSettled([...removals, discardGroups(client, name, created.groups)]);
}

function inProgress(sandbox: string, checkpointId: string): RametError {
  return new RametError("Conflict", `The volumes of ${sandbox} are being captured for ${checkpointId}`, {
    retryable: true,
  });
}

/** A checkpoint without one of its volumes must not be restored. */
function missingOf(snapshots: readonly Snapshot[], groups: readonly FoundGroup[] = []): string | undefined {
  const found = snapshots.length + groups.reduce((sum, { record }) => sum + record.volumes.length, 0);
  if (found === 0) return "has no VolumeSnapshots";
  const all = Math.max(...snapshots.map(numberOfVolumes), ...groups.map(({ record }) => record.ofVolumes));
  return found < all ? `has ${found} of its ${all} VolumeSnapshots` : undefined;
}

function lost({ namespace, checkpointId }: CheckpointName, why: string): RametError {
  return new RametError("CheckpointLost", `The checkpoint ${namespace}/${checkpointId} ${why}`, {
    hint: "Delete the Checkpoint, and create another one",
  });
}
