import { type Checkpoint, volumeParts } from "../../api/kinds/checkpoint.ts";
import { annotations, labels } from "../../api/names/labels.ts";
import { captureParts, type Quiesce } from "../../backends/capture-parts.ts";
import { findParts } from "../../backends/checkpoint-parts.ts";
import { checkpointRecord, type CheckpointRecord, partsOf } from "../../backends/checkpoint-record.ts";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import { checkpointState, isPauseCheckpoint, isUnfinished, storedHandle } from "../../api/state/checkpoint.ts";
import { dataIdOf } from "../cluster/pause-checkpoint.ts";
import { begin, deleteWith, tryToKeepTemplate, volumeSnapshotOf } from "./capture.ts";
import type { CheckpointAction, CheckpointDependencies, CheckpointState, StoredSource } from "./state.ts";

type SharedCapture = Pick<Extract<CheckpointAction, { do: "shareStored" }>, "source" | "spec">;

/**
 * Takes a checkpoint of a paused sandbox without resuming it: the new Checkpoint shares the data of the pause. The data is removed
 * with the last Checkpoint that has it, which the label `ramet.dev/data-of` tells, so that is written before anything is read. A
 * repeat after a crash finds the label and continues.
 */
export async function shareStored(
  { checkpoint, checkpointId }: CheckpointState,
  { source, spec }: SharedCapture,
  dependencies: CheckpointDependencies,
): Promise<void> {
  const { namespace } = checkpoint.metadata;
  const labelled = {
    [labels.dataOf]: source.dataId,
    [labels.sandboxName]: source.sandboxName,
    [labels.checkpointId]: checkpointId,
  };
  // A clone needs the image of the Pod that was paused.
  const image = dependencies.cache
    .checkpointsOfData(namespace, source.dataId)
    .flatMap(({ metadata }) => metadata.annotations?.[annotations.image] ?? [])
    .at(0);
  const marks = { labels: labelled, annotations: defined({ [annotations.image]: image }) };
  const start = { occupied: { data: `${namespace}/${source.dataId}` }, marks };
  await begin(checkpoint, start, dependencies, async (signal) => {
    const record = await shared({ checkpoint, checkpointId }, source, dependencies);
    // The next Pod of such a sandbox gets claims with this data.
    if (volumeParts(record.parts).length > 0) return record;
    const volumes = await captureVolumes({ checkpoint, checkpointId, source, spec }, dependencies, signal);
    return volumes === undefined ? record : withParts(record, volumes);
  });
}

/**
 * Captures the volumes of a paused sandbox, which do not change: it has no Pod. Another sandbox may share a claim, so they are no
 * more than crash-consistent. Undefined: none are requested.
 */
async function captureVolumes(
  {
    checkpoint,
    checkpointId,
    source: { sandbox, sandboxName },
    spec,
  }: Pick<CheckpointState, "checkpoint" | "checkpointId"> & SharedCapture,
  dependencies: CheckpointDependencies,
  signal: AbortSignal,
): Promise<CheckpointRecord | undefined> {
  if (spec.volumes === "none") return undefined;
  if (sandbox === undefined) throw new RametError("NotFound", `The sandbox ${sandboxName} does not exist any more`);
  const name = { namespace: checkpoint.metadata.namespace, checkpointId };
  const { volumes } = spec;
  const volumeSnapshot = volumeSnapshotOf(checkpoint);
  const request = { name, source: sandbox, contents: [], volumes, keepRunning: true, volumeSnapshot, signal };
  const captured = await captureParts(dependencies.backends, {
    ...request,
    consistency: "crash",
    requireAtomic: false,
    quiesce: nothing,
  });
  await deleteWith(captured, checkpoint, dependencies);
  return captured;
}

/** Nothing runs in a paused sandbox. */
const nothing: Quiesce = { before: () => Promise.resolve(undefined), after: () => Promise.resolve(undefined) };

function withParts(record: CheckpointRecord, { parts }: CheckpointRecord): CheckpointRecord {
  return parts.length === 0 ? record : { ...checkpointRecord([...parts, ...record.parts], record) };
}

/** @throws RametError `CheckpointLost`; `InvalidArgument` for contents that are not stored; `Unavailable` during a removal */
async function shared(
  started: Pick<CheckpointState, "checkpoint" | "checkpointId">,
  { dataId }: StoredSource,
  dependencies: CheckpointDependencies,
): Promise<CheckpointRecord> {
  const { backends, cache } = dependencies;
  const { checkpoint } = started;
  const { namespace } = checkpoint.metadata;
  const holder = await holderOf(checkpoint, dataId, dependencies);
  const isAdopted = partsOf(holder?.status?.ramet) === undefined;
  const found = await findParts(backends, { namespace, checkpointId: dataId }, { isAdopted });
  const record = { ...(holder === undefined ? found : recordFrom(holder, { dataId, found })), addedBytes: 0 };
  assertContents(checkpoint, record);
  const read = () => holder && cache.templatesOwnedBy(holder.metadata.uid).at(0)?.spec;
  await tryToKeepTemplate(started, read, dependencies);
  return record;
}

/**
 * The record of a Checkpoint with the same data. Another one may have captured volumes of the paused sandbox, which are not part of that
 * data and are removed with it.
 * @throws RametError `CheckpointLost`
 */
function recordFrom(
  { metadata, status }: Checkpoint,
  { dataId, found }: { dataId: string; found: CheckpointRecord },
): CheckpointRecord {
  const parts = partsOf(status?.ramet);
  if (parts === undefined) return found;
  const volumes = volumeParts(found.parts);
  if (status?.checkpointId === dataId && volumes.length < volumeParts(parts).length)
    throw new RametError("CheckpointLost", `The checkpoint ${metadata.name} has lost the data of its volumes`, {
      hint: "Delete the Checkpoint, and create another one",
    });
  return { ...status?.ramet, parts: [...volumes, ...parts.filter(({ volume }) => volume === undefined)] };
}

/** The Checkpoint whose data is shared, as the API server has it now. Its removal would take the data with it. */
async function holderOf(
  { metadata }: Checkpoint,
  dataId: string,
  { informers, cache }: CheckpointDependencies,
): Promise<Checkpoint | undefined> {
  const cached = cache.checkpointsOfData(metadata.namespace, dataId).find((one) => one.metadata.uid !== metadata.uid);
  const holder = cached && (await informers.checkpoints.resource.find(cached.metadata));
  if (holder === undefined || dataIdOf(holder) !== dataId) return undefined;
  if (holder.metadata.deletionTimestamp === undefined) return holder;
  throw new RametError("Unavailable", `The checkpoint ${holder.metadata.name} is being deleted`, { retryable: true });
}

/** Data with memory cannot be restored without it, and the other way round. */
function assertContents(checkpoint: Checkpoint, { contents }: CheckpointRecord): void {
  const words = new Set<string>(checkpoint.spec.persistentContents);
  const requested = contentWords.filter((word) => words.has(word));
  if (requested.length === 0 || isPauseCheckpoint(checkpoint)) return;
  if (requested.length === contents?.length) return;
  throw new RametError(
    "InvalidArgument",
    `The checkpoint was not taken: the sandbox is paused with ${(contents ?? []).join(" and ")}, not with ${requested.join(" and ")}`,
    { hint: "Omit spec.persistentContents to use what is stored, or resume the sandbox first" },
  );
}

const contentWords = ["memory", "filesystem"];

/** Whether another Checkpoint needs the data of this one, or a sandbox needs it as a layer. */
export function isShared(
  checkpoint: Checkpoint,
  { cache, captures }: Pick<CheckpointDependencies, "cache" | "captures">,
): boolean {
  const { namespace, uid } = checkpoint.metadata;
  const dataId = dataIdOf(checkpoint);
  const needs = (one: Checkpoint): boolean =>
    one.metadata.uid !== uid &&
    one.metadata.deletionTimestamp === undefined &&
    checkpointState(one) !== "failed" &&
    mayShare(one, checkpoint);
  const isLayer = cache.usersOfLayer(namespace, dataId).some(({ metadata }) => metadata.uid !== uid);
  return (
    isLayer || captures.shares(`${namespace}/${dataId}`, uid) || cache.checkpointsOfData(namespace, dataId).some(needs)
  );
}

/** Users can set the label of a finished Checkpoint that does not share, and would keep data that counts towards no quota. */
function mayShare(one: Checkpoint, of: Checkpoint): boolean {
  const isUnknown = isUnfinished(one) || [one, of].some(({ status }) => partsOf(status?.ramet) === undefined);
  return isUnknown || storedHandle(one) === storedHandle(of);
}
