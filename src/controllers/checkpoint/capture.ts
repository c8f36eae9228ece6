import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { annotations, finalizers, jsonAnnotation, labels } from "../../api/names/labels.ts";
import { VolumeSnapshotRequest } from "../../api/kinds/checkpoint-spec.ts";
import { withoutOrigin } from "../../api/pod/restore-spec.ts";
import { apiVersion } from "../../api/schema/kind.ts";
import { captureParts } from "../../backends/capture-parts.ts";
import type { CheckpointRecord } from "../../backends/checkpoint-record.ts";
import { sandboxRef } from "../../backends/runtime.ts";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import { controllerOf, keyOf } from "../../kube/object.ts";
import { retryConflicts } from "../../kube/apply.ts";
import { apiVersionOf } from "../../kube/resource-ref.ts";
import { snapshotResources, snapshotsIn } from "../../kube/volumes/snapshots.ts";
import { resolveTemplate } from "../origin/resolve-template.ts";
import type { Occupied } from "./captures.ts";
import { quiesceWith } from "./quiesce.ts";
import type { CheckpointAction, CheckpointCapture, CheckpointDependencies, CheckpointState } from "./state.ts";
import { writeCreating } from "./status.ts";

/** Captures the source outside the reconcile. */
export async function startCapture(
  { checkpoint, checkpointId }: CheckpointState,
  { source, spec, maxBytes }: Extract<CheckpointAction, { do: "startCapture" }>,
  dependencies: CheckpointDependencies,
): Promise<void> {
  const capture = { checkpoint, checkpointId, source, spec, maxBytes };
  const start = { occupied: { podUid: source.pod.metadata.uid }, marks: marks(capture) };
  await begin(checkpoint, start, dependencies, (signal) => takeCheckpoint(capture, dependencies, signal));
}

interface Start {
  occupied: Occupied;
  /** What is written to the Checkpoint before anything exists. */
  marks: { labels: Record<string, string>; annotations?: Record<string, string> };
}

/**
 * Starts the call that takes a checkpoint; the key is requeued when it ends. The write before it belongs to the reconcile, which is
 * repeated while the API server is unreachable. Nothing has an effect before that write has succeeded, and a repeat after a crash
 * finds it.
 * @throws RametError if the API server is unreachable. The checkpoint has not failed; it starts when the write succeeds
 */
export async function begin(
  checkpoint: Checkpoint,
  { occupied, marks: own }: Start,
  dependencies: CheckpointDependencies,
  call: (signal: AbortSignal) => Promise<CheckpointRecord>,
): Promise<void> {
  const { captures, usage } = dependencies;
  captures.occupy(checkpoint, occupied);
  usage.start(checkpoint);
  if (await mark(checkpoint, own, dependencies)) {
    captures.start(checkpoint, call);
    return;
  }
  usage.forget(checkpoint.metadata.uid);
  captures.forget(checkpoint);
}

/** Writes the finalizer and the marks. Returns false if the Checkpoint no longer exists. */
async function mark(
  checkpoint: Checkpoint,
  own: Start["marks"],
  { informers, cache, ownWrites }: CheckpointDependencies,
): Promise<boolean> {
  const { resource } = informers.checkpoints;
  const { metadata } = checkpoint;
  const cached = cache.checkpoint(keyOf(metadata)) ?? checkpoint;
  return retryConflicts(async (number) => {
    // The object changed after the cache read it; a label was written, for example.
    const latest = number > 1 ? await resource.find(metadata) : cached;
    if (latest?.metadata.uid !== metadata.uid) return false;
    if (isMarked(latest, own)) return true;
    await ownWrites.write(latest, () => resource.addFinalizer(latest, finalizers.checkpoint, { metadata: own }));
    return true;
  }, 6).catch((error: unknown) => {
    if (RametError.from(error).code !== "NotFound") throw error;
    return false;
  });
}

function isMarked({ metadata }: Checkpoint, own: Start["marks"]): boolean {
  const has = (found: Record<string, string> = {}, wanted: Record<string, string> = {}) =>
    Object.entries(wanted).every(([key, value]) => found[key] === value);
  const isKept = metadata.finalizers?.includes(finalizers.checkpoint) ?? false;
  return isKept && has(metadata.labels, own.labels) && has(metadata.annotations, own.annotations);
}

/**
 * Takes a checkpoint that is marked as started: captures the parts, and meanwhile writes the status and keeps the template.
 * A repeated call is safe, because the cell and the store know the id. `signal` ends the wait for the cell.
 */
async function takeCheckpoint(
  capture: CheckpointCapture,
  dependencies: CheckpointDependencies,
  signal: AbortSignal,
): Promise<CheckpointRecord> {
  // Neither delays the capture, and neither throws. Both end before the status reports the outcome.
  const concurrent = Promise.all([
    writeCreating(capture, dependencies),
    tryToKeepTemplate(capture, () => keptSpec(capture, dependencies), dependencies),
  ]);
  return captureSource(capture, dependencies, signal).finally(() => concurrent);
}

async function captureSource(
  { checkpoint, checkpointId, source, spec, maxBytes }: CheckpointCapture,
  dependencies: CheckpointDependencies,
  signal: AbortSignal,
): Promise<CheckpointRecord> {
  const { backends, runtime, clock, usage, storeReports } = dependencies;
  const name = { namespace: checkpoint.metadata.namespace, checkpointId };
  const { sandboxName: _, ttlMilliseconds: __, quiesce: commands, ...requested } = spec;
  const target = sandboxRef(source.sandbox, source.pod);
  const quiesce = quiesceWith(commands, { guest: () => runtime.guest(target), clock, signal });
  const volumeSnapshot = volumeSnapshotOf(checkpoint);
  const asLayer = checkpoint.metadata.annotations?.[annotations.asLayer] === "true" || undefined;
  const findRandomPrograms = isOfVersion(checkpoint) || undefined;
  const marked = { volumeSnapshot, asLayer, findRandomPrograms };
  const request = { ...requested, ...marked, source: target, name, quiesce, maxBytes, signal };
  try {
    const record = await captureParts(backends, request);
    await deleteWith(record, checkpoint, dependencies);
    storeReports.captured(checkpoint);
    return record;
  } catch (thrown) {
    const error = RametError.from(thrown);
    storeReports.captured(checkpoint, error);
    throw usage.explain(checkpoint, error);
  }
}

/** Builds tell their authors about random numbers; other captures are not delayed by the look at all programs. */
function isOfVersion({ metadata }: Checkpoint): boolean {
  return metadata.labels?.[labels.purpose] === "version";
}

/** How the VolumeSnapshots of a Checkpoint are made. @throws RametError `InvalidArgument` */
export function volumeSnapshotOf(checkpoint: Checkpoint): VolumeSnapshotRequest | undefined {
  return jsonAnnotation(checkpoint, annotations.volumeSnapshot, VolumeSnapshotRequest);
}

/**
 * Lets the cluster's garbage collector delete a Checkpoint with the VolumeSnapshot that it names, which a user deletes by the name. The
 * collector keeps it as long as another owner exists.
 */
export async function deleteWith(
  { parts }: Pick<CheckpointRecord, "parts">,
  checkpoint: Checkpoint,
  { client, informers }: Pick<CheckpointDependencies, "client" | "informers">,
): Promise<void> {
  const { metadata } = checkpoint;
  const name = volumeSnapshotOf(checkpoint)?.name;
  if (name === undefined || !parts.some(({ volume }) => volume?.snapshot === name)) return;
  const { resource } = informers.checkpoints;
  const { snapshots } = snapshotResources;
  const { uid } = (await snapshotsIn(client).get({ namespace: metadata.namespace, name })).metadata;
  const reference = { apiVersion: apiVersionOf(snapshots), kind: snapshots.kind, name, uid };
  await retryConflicts(async () => {
    const latest = await resource.find(metadata);
    if (latest?.metadata.uid !== metadata.uid) return;
    const { resourceVersion, ownerReferences = [] } = latest.metadata;
    if (ownerReferences.some((owner) => owner.uid === uid)) return;
    // A merge patch replaces the whole list.
    const owners = [...ownerReferences, reference];
    await resource.mergePatch(metadata, { metadata: { uid: metadata.uid, resourceVersion, ownerReferences: owners } });
  });
}

function marks({ checkpointId, source, spec }: CheckpointCapture) {
  const image = source.pod.metadata.annotations?.[annotations.image];
  const { name, namespace } = source.sandbox.metadata;
  return {
    annotations: {
      [annotations.podUid]: source.pod.metadata.uid,
      [annotations.sandboxId]: `${namespace}--${name}`,
      // A clone gets the same image, although the tag may have moved or the registry may be unreachable.
      ...defined({ [annotations.image]: image }),
    },
    labels: {
      [labels.sandboxName]: name,
      [labels.checkpointId]: checkpointId,
      [labels.checkpointType]: typeOf(spec),
    },
  };
}

function typeOf({ contents, volumes }: CheckpointCapture["spec"]): string {
  return [...contents, ...(volumes === "none" ? [] : ["volumes"])].sort().join("-");
}

/**
 * Keeps a template as a SandboxTemplate that the Checkpoint owns, so that a clone needs no template. OpenKruise Agents'
 * sandbox-manager does the same. The name is that of the Checkpoint, or the checkpoint id if that name is taken.
 * @returns false if both are taken
 */
export async function keepTemplate(
  { checkpoint, checkpointId }: Pick<CheckpointState, "checkpoint" | "checkpointId">,
  spec: object,
  { informers, cache }: CheckpointDependencies,
): Promise<boolean> {
  const { name, namespace, uid } = checkpoint.metadata;
  if (cache.templatesOwnedBy(uid).length > 0) return true;
  const ownerReferences = [{ apiVersion, kind: "Checkpoint", name, uid, controller: true }];
  for (const as of [name, checkpointId]) {
    const metadata = { name: as, namespace, ownerReferences };
    const found = await informers.templates.resource.ensure({ apiVersion, kind: "SandboxTemplate", metadata, spec });
    if (controllerOf(found)?.uid === uid) return true;
  }
  return false;
}

/** As {@link keepTemplate}. A failure is only logged: a clone of the checkpoint then needs its own template. */
export async function tryToKeepTemplate(
  started: Pick<CheckpointState, "checkpoint" | "checkpointId">,
  read: () => object | undefined,
  dependencies: CheckpointDependencies,
): Promise<void> {
  try {
    const spec = read();
    if (spec !== undefined) await keepTemplate(started, spec, dependencies);
  } catch (thrown) {
    const error = RametError.from(thrown).message;
    dependencies.log.warn({ checkpoint: keyOf(started.checkpoint.metadata), error }, "template not kept");
  }
}

function keptSpec({ source: { sandbox } }: CheckpointCapture, { cache }: CheckpointDependencies) {
  const resolved = resolveTemplate(sandbox, cache);
  if ("problem" in resolved) throw resolved.problem;
  const { runtimes, pauseStrategy = resolved.pauseStrategy } = sandbox.spec;
  const { persistentContents, volumes } = resolved.contents;
  return {
    template: withoutOrigin(resolved.template),
    ...(resolved.volumeClaims.length > 0 && { volumeClaimTemplates: resolved.volumeClaims }),
    ...(persistentContents !== undefined && persistentContents.length > 0 && { persistentContents }),
    ...defined({ volumes, runtimes, pauseStrategy }),
  };
}
