import { RametError } from "../../base/errors.ts";
import { finalizers } from "../../api/names/labels.ts";
import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import type { Pod } from "../../api/schema/pod.ts";
import { watching, type ControllerWatch, type ReconcileResult } from "../../kube/controller.ts";
import { keyOf } from "../../kube/object.ts";
import { removeFinalizer } from "../common/finalizer.ts";
import { lookAgain } from "../common/requeue.ts";
import { isUnfinished } from "../common/pause-checkpoint.ts";
import type { CheckpointDependencies } from "./dependencies.ts";
import { gather } from "./gather.ts";
import { markBegun } from "./mark-begun.ts";
import { planCheckpoint } from "./plan.ts";
import type { CheckpointAction, CheckpointPlan, CheckpointState } from "./state.ts";
import { takeCheckpoint } from "./take.ts";

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
  const { cache, statuses, ownWrites, cuts } = dependencies;
  const cached = cache.checkpoint(key);
  if (cached === undefined) return;
  if (!isUnfinished(cached)) forget(cached, dependencies);
  const checkpoint = ownWrites.latest(cached);
  const state = await gather(checkpoint, dependencies);
  const plan = planCheckpoint(state);
  for (const action of plan.actions) await applyAction(state, action, dependencies);
  if (plan.actions.some((action) => action.do === "removeData")) {
    await remove(cached, state, { plan, dependencies });
    cuts.forget(cached.metadata.uid);
    return;
  }
  const { status } = plan;
  if (status !== undefined) {
    await ownWrites.write(checkpoint, () => statuses.write(checkpoint, status));
    for (const transition of plan.transitions ?? []) dependencies.events.record(checkpoint, transition);
  }
  return lookAgain(state, plan);
}

async function applyAction(
  state: CheckpointState,
  action: CheckpointAction,
  dependencies: CheckpointDependencies,
): Promise<void> {
  const { checkpoint } = state;
  const { informers, backend } = dependencies;
  switch (action.do) {
    case "startCut":
      await startCut(state, action, dependencies);
      return;
    case "findPublished":
      findPublished(state, action, dependencies);
      return;
    case "stopSource": {
      const { sandbox, pod } = action.source;
      const target = { sandboxUid: sandbox.metadata.uid, ip: pod.status?.podIP ?? "" };
      await backend.stop(target, `the checkpoint ${checkpoint.metadata.name} has ended it (keepRunning is false)`);
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
async function startCut(
  { checkpoint, checkpointId }: CheckpointState,
  { source, wish }: Extract<CheckpointAction, { do: "startCut" }>,
  dependencies: CheckpointDependencies,
): Promise<void> {
  const { uid } = checkpoint.metadata;
  dependencies.taking.set(source.pod.metadata.uid, uid);
  const taking = { checkpoint, checkpointId, source, wish };
  if (!(await markBegun(taking, dependencies))) return;
  const call = (signal: AbortSignal) => takeCheckpoint(taking, dependencies, signal);
  dependencies.cuts.start(uid, call, () => {
    if (dependencies.cuts.get(uid)?.state !== "running") release(uid, dependencies);
    dependencies.enqueue(keyOf(checkpoint.metadata));
  });
}

function findPublished(
  { checkpoint, checkpointId }: CheckpointState,
  { otherwise }: Extract<CheckpointAction, { do: "findPublished" }>,
  dependencies: CheckpointDependencies,
): void {
  const { backend, cuts, enqueue } = dependencies;
  const { uid, namespace } = checkpoint.metadata;
  const call = () =>
    backend.whenReady({ namespace, checkpointId }).catch((error: unknown) => {
      throw RametError.from(error).code === "CheckpointLost" ? otherwise : error;
    });
  cuts.replace(uid, call, () => {
    if (cuts.get(uid)?.state !== "running") release(uid, dependencies);
    enqueue(keyOf(checkpoint.metadata));
  });
}

/** Data first, the Checkpoint last: what is gone from the API has nothing left in the store. */
async function remove(
  cached: Checkpoint,
  { checkpointId }: CheckpointState,
  { plan, dependencies }: { plan: CheckpointPlan; dependencies: CheckpointDependencies },
): Promise<void> {
  const { informers, cache, backend, statuses, log } = dependencies;
  const { namespace, uid } = cached.metadata;
  const shown = statuses.write(cached, { ...plan.status }).catch((error: unknown) => {
    log.debug({ checkpoint: keyOf(cached.metadata), error: RametError.from(error).message }, "status not written");
  });
  await Promise.all([
    backend.remove({ namespace, checkpointId }),
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
  dependencies.cuts.forget(metadata.uid);
  release(metadata.uid, dependencies);
}

function release(checkpointUid: string, { taking }: CheckpointDependencies): void {
  for (const [podUid, taken] of taking) if (taken === checkpointUid) taking.delete(podUid);
}
