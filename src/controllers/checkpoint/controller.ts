import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { finalizers } from "../../api/names/labels.ts";
import type { Pod } from "../../api/schema/pod.ts";
import { type CheckpointRecord, partsOf } from "../../backends/checkpoint-record.ts";
import { captureParts, findParts, removeParts } from "../../backends/checkpoint-parts.ts";
import { sandboxRef } from "../../backends/runtime.ts";
import { RametError } from "../../base/errors.ts";
import { type ControllerWatch, type ReconcileResult, watching } from "../../kube/controller.ts";
import { keyOf } from "../../kube/object.ts";
import { OwnWrites } from "../../kube/own-writes.ts";
import { StatusWriter } from "../../kube/status-writer.ts";
import { Attempts } from "../common/attempts.ts";
import { type Controller, type ControllerParts, RequeueSource } from "../common/controller-parts.ts";
import { removeFinalizer } from "../common/finalizer.ts";
import { isUnfinished } from "../common/pause-checkpoint.ts";
import type { CheckpointDependencies } from "./dependencies.ts";
import { gather } from "./gather.ts";
import { keepTemplate } from "./keep-template.ts";
import { markStarted } from "./mark-started.ts";
import { planCheckpoint } from "./plan.ts";
import type { CheckpointAction, CheckpointPlan, CheckpointState, CheckpointCapture } from "./state.ts";

/** Of which changes the Checkpoint controller hears: a source is looked at when it is needed, and when it ends. */
export function checkpointWatches({ informers, cache, taking }: CheckpointDependencies): ControllerWatch[] {
  const ofPod = ({ metadata }: Pod): string[] => {
    const taken = taking.get(metadata.uid);
    const checkpoint = taken === undefined ? undefined : cache.checkpointByUid(taken);
    return checkpoint === undefined ? [] : [keyOf(checkpoint.metadata)];
  };
  return [watching(informers.checkpoints), watching(informers.pods, ofPod)];
}

/** Takes one checkpoint, ends it when its time is over, and removes its data when it is deleted. */
export async function reconcileCheckpoint(key: string, dependencies: CheckpointDependencies): Promise<ReconcileResult> {
  const { cache, statuses, ownWrites, captures } = dependencies;
  const cached = cache.checkpoint(key);
  if (cached === undefined) return;
  if (!isUnfinished(cached)) forget(cached, dependencies);
  const checkpoint = ownWrites.latest(cached);
  const state = await gather(checkpoint, dependencies);
  const plan = planCheckpoint(state);
  for (const action of plan.actions) await applyAction(state, action, dependencies);
  if (plan.actions.some((action) => action.do === "removeData")) {
    await remove(cached, state, { plan, dependencies });
    captures.forget(cached.metadata.uid);
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
    case "findPublished":
      findPublished(state, action, dependencies);
      return;
    case "stopSource": {
      const { sandbox, pod } = action.source;
      await runtime.stop(
        sandboxRef(sandbox, pod),
        `the checkpoint ${checkpoint.metadata.name} has ended it (keepRunning is false)`,
      );
      return;
    }
    case "deleteCheckpoint":
      await informers.checkpoints.resource.delete(checkpoint.metadata, { uid: checkpoint.metadata.uid });
      return;
    case "removeData":
      // With the status and the finalizer in their order, by `remove`.
      return;
  }
}

/**
 * Beside the reconciles; at its end the key comes again. What is written before it is the reconcile's own: while the API
 * server is away, that is tried again and again, and no cell has been asked in vain.
 */
async function startCapture(
  { checkpoint, checkpointId }: CheckpointState,
  { source, spec }: Extract<CheckpointAction, { do: "startCapture" }>,
  dependencies: CheckpointDependencies,
): Promise<void> {
  const { uid } = checkpoint.metadata;
  dependencies.taking.set(source.pod.metadata.uid, uid);
  const taking = { checkpoint, checkpointId, source, spec };
  if (!(await markStarted(taking, dependencies))) return;
  const call = (signal: AbortSignal) => takeCheckpoint(taking, dependencies, signal);
  dependencies.captures.start(uid, call, () => {
    if (dependencies.captures.get(uid)?.state !== "running") release(uid, dependencies);
    dependencies.enqueue(keyOf(checkpoint.metadata));
  });
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
    if (captures.get(uid)?.state !== "running") release(uid, dependencies);
    enqueue(keyOf(checkpoint.metadata));
  });
}

/** Data first, the Checkpoint last: what is gone from the API has nothing left in the store. */
async function remove(
  cached: Checkpoint,
  { checkpointId }: CheckpointState,
  { plan, dependencies }: { plan: CheckpointPlan; dependencies: CheckpointDependencies },
): Promise<void> {
  const { informers, cache, backends, statuses, log } = dependencies;
  const { namespace, uid } = cached.metadata;
  const shown = statuses.write(cached, { ...plan.status }).catch((error: unknown) => {
    log.debug({ checkpoint: keyOf(cached.metadata), error: RametError.from(error).message }, "status not written");
  });
  await Promise.all([
    removeParts(backends, { namespace, checkpointId }, partsOf(cached.status?.ramet)),
    ...cache
      .templatesOwnedBy(uid)
      .map(({ metadata }) => informers.templates.resource.delete(metadata, { uid: metadata.uid })),
  ]);
  await shown;
  const latest = await informers.checkpoints.resource.find(cached.metadata);
  if (latest?.metadata.uid === uid) {
    await removeFinalizer(informers.checkpoints.resource, latest, finalizers.checkpoint);
  }
}

function forget({ metadata }: Checkpoint, dependencies: CheckpointDependencies): void {
  dependencies.captures.forget(metadata.uid);
  release(metadata.uid, dependencies);
}

function release(checkpointUid: string, { taking }: CheckpointDependencies): void {
  for (const [podUid, taken] of taking) if (taken === checkpointUid) taking.delete(podUid);
}

/**
 * Takes a checkpoint that is marked as begun: the cut, and beside it what users see of it. It can be begun anew at any time;
 * the cell and the store know the id. `signal` ends the wait for the cell.
 */
async function takeCheckpoint(
  taking: CheckpointCapture,
  dependencies: CheckpointDependencies,
  signal: AbortSignal,
): Promise<CheckpointRecord> {
  // Neither holds up the cut, and neither throws; both are through before the status says how it ended.
  const beside = Promise.all([showCreating(taking, dependencies), keepTemplate(taking, dependencies)]);
  return capture(taking, dependencies, signal).finally(() => beside);
}

async function capture(
  { checkpoint, checkpointId, source, spec }: CheckpointCapture,
  { backends }: CheckpointDependencies,
  signal: AbortSignal,
): Promise<CheckpointRecord> {
  const name = { namespace: checkpoint.metadata.namespace, checkpointId };
  const { contents, keepRunning } = spec;
  const target = sandboxRef(source.sandbox, source.pod);
  return captureParts(backends, { source: target, name, contents, keepRunning, signal });
}

/** News, not truth: a failure to say that it is being taken must not keep it from being taken. */
async function showCreating(
  { checkpoint, checkpointId }: CheckpointCapture,
  { statuses, ownWrites, log }: CheckpointDependencies,
): Promise<void> {
  if (checkpoint.status?.phase === "Creating") return;
  try {
    await ownWrites.write(checkpoint, () =>
      statuses.write(checkpoint, { ...checkpoint.status, phase: "Creating", checkpointId }),
    );
  } catch (error) {
    log.debug({ checkpoint: keyOf(checkpoint.metadata), error: RametError.from(error).message }, "status not written");
  }
}

/** A checkpoint whose cell cannot be reached for that long has failed. */
const unreachableMilliseconds = 30_000;

/** Takes Checkpoints. */
export function checkpointController(parts: ControllerParts): Controller {
  const { informers, clock, random } = parts;
  const requeues = new RequeueSource();
  const dependencies: CheckpointDependencies = {
    ...parts,
    statuses: new StatusWriter<Checkpoint>(informers.checkpoints.resource),
    ownWrites: new OwnWrites(informers.checkpoints),
    captures: new Attempts<CheckpointRecord>({ clock, random, giveUpAfterMilliseconds: unreachableMilliseconds }),
    taking: new Map(),
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
