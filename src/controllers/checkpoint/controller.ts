import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import type { Pod } from "../../api/schema/pod.ts";
import type { CheckpointRecord } from "../../backends/checkpoint-record.ts";
import { type ControllerWatch, type ReconcileResult, watching } from "../../kube/controller.ts";
import { keyOf } from "../../kube/object.ts";
import { OwnWrites } from "../../kube/own-writes.ts";
import { StatusWriter } from "../../kube/status-writer.ts";
import { Attempts } from "../cluster/attempts.ts";
import { type Controller, type ControllerParts, RequeueSource } from "../cluster/controller-parts.ts";
import { isUnfinished } from "../../api/state/checkpoint.ts";
import { applyAction, forget } from "./apply.ts";
import { gather } from "./gather.ts";
import { planCheckpoint } from "./plan.ts";
import type { CheckpointDependencies, CheckpointState } from "./state.ts";
import { writeStatus } from "./status.ts";
import { CheckpointUsage } from "./usage.ts";

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
  const cached = dependencies.cache.checkpoint(key);
  if (cached === undefined) return;
  if (!isUnfinished(cached)) forget(cached, dependencies);
  const state = withQuota(await gather(dependencies.ownWrites.latest(cached), dependencies), dependencies);
  const plan = planCheckpoint(state);
  for (const action of plan.actions) await applyAction(state, action, dependencies);
  await writeStatus(state.checkpoint, plan, dependencies);
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
