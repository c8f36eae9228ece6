import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { finalizers } from "../../api/names/labels.ts";
import type { Pod } from "../../api/schema/pod.ts";
import { findParts, type PartsRemoval, removeParts } from "../../backends/checkpoint-parts.ts";
import { type CheckpointRecord, partsOf } from "../../backends/checkpoint-record.ts";
import { sandboxRef } from "../../backends/runtime.ts";
import { RametError } from "../../base/errors.ts";
import { type ControllerWatch, type ReconcileResult, watching } from "../../kube/controller.ts";
import { keyOf } from "../../kube/object.ts";
import { OwnWrites } from "../../kube/own-writes.ts";
import { StatusWriter } from "../../kube/status-writer.ts";
import { Attempts } from "../cluster/attempts.ts";
import { type Controller, type ControllerParts, RequeueSource } from "../cluster/controller-parts.ts";
import { removeFinalizer } from "../cluster/finalizer.ts";
import { checkpointIdOf, dataNameOf, isUnfinished } from "../cluster/pause-checkpoint.ts";
import { releasePod, startCapture } from "./capture.ts";
import { gather } from "./gather.ts";
import { startImport } from "./import.ts";
import { planCheckpoint } from "./plan.ts";
import { isShared, shareStored } from "./share-stored.ts";
import { CheckpointUsage } from "./usage.ts";
import type { CheckpointAction, CheckpointDependencies, CheckpointPlan, CheckpointState } from "./state.ts";

/** The changes that the Checkpoint controller watches: Checkpoints, and Pods while they are captured. */
export function checkpointWatches({ informers, cache, capturing }: CheckpointDependencies): ControllerWatch[] {
  const ofPod = ({ metadata }: Pod): string[] => {
    const checkpointUid = capturing.get(metadata.uid);
    const checkpoint = checkpointUid === undefined ? undefined : cache.checkpointByUid(checkpointUid);
    return checkpoint === undefined ? [] : [keyOf(checkpoint.metadata)];
  };
  return [watching(informers.checkpoints), watching(informers.pods, ofPod)];
}

/** Takes one checkpoint, deletes it when its TTL expires, and removes its data when it is deleted. */
export async function reconcileCheckpoint(key: string, dependencies: CheckpointDependencies): Promise<ReconcileResult> {
  const { cache, statuses, ownWrites, captures } = dependencies;
  const cached = cache.checkpoint(key);
  if (cached === undefined) return;
  if (!isUnfinished(cached)) forget(cached, dependencies);
  const checkpoint = ownWrites.latest(cached);
  const state = withQuota(await gather(checkpoint, dependencies), dependencies);
  const plan = planCheckpoint(state);
  for (const action of plan.actions) await applyAction(state, action, dependencies);
  if (plan.actions.some((action) => action.do === "removeData")) {
    await remove(cached, { plan, dependencies });
    captures.forget(cached.metadata.uid);
    if (!isShared(cached, dependencies)) dependencies.dataFindings.forget(dataNameOf(cached));
    dependencies.usage.forget(cached.metadata.uid);
    dependencies.sharing.delete(cached.metadata.uid);
    return;
  }
  const { status } = plan;
  if (status !== undefined) {
    await ownWrites.write(checkpoint, () => statuses.write(checkpoint, status));
    for (const transition of plan.transitions ?? []) dependencies.events.record(checkpoint, transition);
  }
  const { requeueAfterMilliseconds } = plan;
  return requeueAfterMilliseconds === undefined ? undefined : { requeueAfterMilliseconds };
}

/**
 * Adds the namespace's quota. Nothing is awaited between this and the start of the capture, so two checkpoints cannot get the
 * same place. A sandbox that was captured to be stopped is paused: its checkpoint is kept, as the sandbox would be lost
 * without it.
 */
function withQuota(
  state: Omit<CheckpointState, "quota">,
  { usage }: Pick<CheckpointDependencies, "usage">,
): CheckpointState {
  const { checkpoint, capture, spec } = state;
  if (!isUnfinished(checkpoint)) return { ...state, quota: {} };
  if (capture === undefined) return { ...state, quota: usage.admission(checkpoint) };
  if (capture.state !== "done") return { ...state, quota: {} };
  const problem = usage.excess(checkpoint, capture.value.sizeBytes ?? 0);
  const isKept = problem === undefined || "problem" in spec || !spec.keepRunning;
  return { ...state, quota: isKept ? {} : { problem } };
}

async function applyAction(
  state: CheckpointState,
  action: CheckpointAction,
  dependencies: CheckpointDependencies,
): Promise<void> {
  const { checkpoint } = state;
  const { informers, runtime } = dependencies;
  switch (action.do) {
    case "startCapture":
      await startCapture(state, action, dependencies);
      return;
    case "shareStored":
      await shareStored(state, action, dependencies);
      return;
    case "startImport":
      await startImport(state, action.volumeImport, dependencies);
      return;
    case "findPublished":
      findPublished(state, action, dependencies);
      return;
    case "discard": {
      const own = [{ namespace: checkpoint.metadata.namespace, checkpointId: state.checkpointId }];
      await removeParts(dependencies.backends, { data: own, volumes: own, parts: action.record.parts });
      return;
    }
    case "stopSource": {
      const { sandbox, pod } = action.source;
      await runtime.stop(
        sandboxRef(sandbox, pod),
        `stopped by the checkpoint ${checkpoint.metadata.name} (keepRunning is false)`,
      );
      return;
    }
    case "deleteCheckpoint":
      await informers.checkpoints.resource.delete(checkpoint.metadata, { uid: checkpoint.metadata.uid });
      return;
    case "removeData":
      // Done by `remove`, in order with the status and the finalizer.
      return;
  }
}

function findPublished(
  { checkpoint, checkpointId }: CheckpointState,
  { otherwise }: Extract<CheckpointAction, { do: "findPublished" }>,
  dependencies: CheckpointDependencies,
): void {
  const { backends, captures, enqueue } = dependencies;
  const { uid, namespace } = checkpoint.metadata;
  const call = () =>
    findParts(backends, { namespace, checkpointId }).catch((error: unknown) => {
      throw RametError.from(error).code === "CheckpointLost" ? otherwise : error;
    });
  captures.replace(uid, call, () => {
    if (captures.get(uid)?.state !== "running") releasePod(uid, dependencies);
    enqueue(keyOf(checkpoint.metadata));
  });
}

/** Removes the data before the Checkpoint, so that a deleted Checkpoint leaves nothing in the store. */
async function remove(
  cached: Checkpoint,
  { plan, dependencies }: { plan: CheckpointPlan; dependencies: CheckpointDependencies },
): Promise<void> {
  const { informers, cache, backends, captures, statuses, log } = dependencies;
  const { uid } = cached.metadata;
  // Nothing may be created after the removal.
  if (cached.spec.volumeImport !== undefined) await captures.end(uid);
  const statusWritten = statuses.write(cached, { ...plan.status }).catch((error: unknown) => {
    log.debug({ checkpoint: keyOf(cached.metadata), error: RametError.from(error).message }, "status not written");
  });
  await Promise.all([
    removeParts(backends, { ...namesToRemove(cached, dependencies), parts: partsOf(cached.status?.ramet) }),
    ...cache
      .templatesOwnedBy(uid)
      .map(({ metadata }) => informers.templates.resource.delete(metadata, { uid: metadata.uid })),
  ]);
  await statusWritten;
  const latest = await informers.checkpoints.resource.find(cached.metadata);
  if (latest?.metadata.uid === uid) {
    await removeFinalizer(informers.checkpoints.resource, latest, finalizers.checkpoint);
  }
}

/** Checkpoints of paused sandboxes share data, and volumes with it. The last one removes them. */
function namesToRemove(
  checkpoint: Checkpoint,
  dependencies: CheckpointDependencies,
): Pick<PartsRemoval, "data" | "volumes"> {
  const { metadata, status } = checkpoint;
  const data = dataNameOf(checkpoint);
  const own = { namespace: metadata.namespace, checkpointId: status?.checkpointId ?? checkpointIdOf(metadata) };
  const isOwn = own.checkpointId === data.checkpointId;
  if (isShared(checkpoint, dependencies)) return { data: [], volumes: isOwn ? [] : [own] };
  return { data: [data], volumes: isOwn ? [own] : [own, data] };
}

function forget({ metadata }: Checkpoint, dependencies: CheckpointDependencies): void {
  dependencies.captures.forget(metadata.uid);
  dependencies.usage.forget(metadata.uid);
  dependencies.sharing.delete(metadata.uid);
  releasePod(metadata.uid, dependencies);
}

/** A checkpoint fails when its cell has been unreachable for this long. */
const unreachableMilliseconds = 30_000;

/** Creates the controller that takes checkpoints. */
export function checkpointController(parts: ControllerParts): Controller {
  const { informers, clock, random, dataFindings } = parts;
  const requeues = new RequeueSource();
  dataFindings.subscribe(requeues.enqueue);
  const dependencies: CheckpointDependencies = {
    ...parts,
    statuses: new StatusWriter<Checkpoint>(informers.checkpoints.resource),
    ownWrites: new OwnWrites(informers.checkpoints),
    captures: new Attempts<CheckpointRecord>({ clock, random, giveUpAfterMilliseconds: unreachableMilliseconds }),
    usage: new CheckpointUsage(parts.cache, parts.quotas),
    capturing: new Map(),
    sharing: new Map(),
    enqueue: requeues.enqueue,
  };
  return {
    name: "checkpoint",
    watches: checkpointWatches(dependencies),
    reconcile: (key) => reconcileCheckpoint(key, dependencies),
    requeues,
    close: () => {
      dependencies.captures.close();
    },
  };
}
