import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import type { Pod } from "../../api/schema/pod.ts";
import { hasBegun, isUnfinished } from "../../api/state/checkpoint.ts";
import { RametError } from "../../base/errors.ts";
import { type ControllerWatch, type ReconcileResult, watching } from "../../kube/controller.ts";
import { keyOf } from "../../kube/object.ts";
import { StatusWriter } from "../../kube/status-writer.ts";
import { OwnWrites } from "../../kube/informer.ts";
import { preparationReader } from "../../kube/volumes/preparation.ts";
import { type Controller, type ControllerParts, RequeueSource } from "../cluster/controller-parts.ts";
import { disruptionCheckpointName, isUnderWay } from "../cluster/pause-checkpoint.ts";
import { applyAction, forget } from "./apply.ts";
import { CaptureTurns, Captures } from "./captures.ts";
import { gather, isOfDisruption } from "./gather.ts";
import { planCheckpoint } from "./plan.ts";
import type { CheckpointDependencies, CheckpointPlan, CheckpointState } from "./state.ts";
import { writeStatus } from "./status.ts";
import { CheckpointUsage } from "./usage.ts";

/** The changes that the Checkpoint controller watches: Checkpoints, Pods while they are captured, and Sandboxes that one waits for. */
export function checkpointWatches({
  informers,
  cache,
  captures,
  turns,
  clock,
}: CheckpointDependencies): ControllerWatch[] {
  const ofPod = ({ metadata }: Pod): string[] => {
    const checkpointUid = captures.ofPod(metadata.uid);
    const checkpoint = checkpointUid === undefined ? undefined : cache.checkpointByUid(checkpointUid);
    return checkpoint === undefined ? [] : [keyOf(checkpoint.metadata)];
  };
  /** The end of a capture is the turn of the next one. */
  const withNext = (checkpoint: Checkpoint): string[] => {
    const { metadata, spec } = checkpoint;
    const others = cache.checkpointsOf(`${metadata.namespace}/${spec.sandboxName ?? spec.podName ?? ""}`);
    const ofSandbox = [checkpoint, ...others.filter(isUnfinished)].map((one) => keyOf(one.metadata));
    return isUnfinished(checkpoint) ? ofSandbox : [...ofSandbox, ...turns.next(clock.now())];
  };
  const waitingFor = ({ metadata }: Sandbox): string[] =>
    cache
      .checkpointsOf(keyOf(metadata))
      .filter((one) => (isUnfinished(one) && !hasBegun(one)) || holdsNext(one, { cache }))
      .map((one) => keyOf(one.metadata));
  return [
    watching(informers.checkpoints, withNext),
    watching(informers.pods, ofPod),
    watching(informers.sandboxes, waitingFor),
  ];
}

/** Takes one checkpoint, deletes it when its TTL expires, and removes its data when it is deleted. */
export async function reconcileCheckpoint(key: string, dependencies: CheckpointDependencies): Promise<ReconcileResult> {
  const cached = dependencies.cache.checkpoint(key);
  if (cached === undefined) return;
  if (!isUnfinished(cached)) forget(cached, dependencies);
  const found = await gather(dependencies.ownWrites.latest(cached), dependencies);
  // Nothing is awaited between this and the start of the capture, so two checkpoints cannot get the same place.
  const isOwn = isOfDisruption(found.checkpoint, found.source, dependencies.departures);
  const state = { ...found, quota: dependencies.usage.of({ ...found, isOfDisruption: isOwn }) };
  const plan = isOwn ? inTurn(state, planCheckpoint(state), dependencies) : planCheckpoint(state);
  try {
    for (const action of plan.actions) await applyAction(state, action, dependencies);
  } catch (thrown) {
    if (!holdsNext(state.checkpoint, dependencies)) throw thrown;
    return { failure: RametError.from(thrown), requeueAfterMilliseconds: holdingMilliseconds };
  }
  await writeStatus(state.checkpoint, plan, dependencies);
  return plan;
}

/** Whether the next capture of a sandbox whose Pod is being ended waits until this one, which has its name, is removed from the store. */
function holdsNext({ metadata, spec }: Checkpoint, { cache }: Pick<CheckpointDependencies, "cache">): boolean {
  const sandbox = cache.sandbox(`${metadata.namespace}/${spec.sandboxName ?? ""}`);
  if (sandbox === undefined || metadata.deletionTimestamp === undefined) return false;
  return isUnderWay(sandbox.status?.ramet?.disruption) && metadata.name === disruptionCheckpointName(sandbox);
}

const holdingMilliseconds = 2_000;

/** Without the start of a capture whose turn it is not. */
function inTurn(
  { checkpoint, now }: CheckpointState,
  plan: CheckpointPlan,
  { turns }: CheckpointDependencies,
): CheckpointPlan {
  if (!plan.actions.some((action) => action.do === "startCapture")) return plan;
  const requeueAfterMilliseconds = turns.waitMilliseconds(checkpoint, now);
  return requeueAfterMilliseconds === undefined ? plan : { actions: [], requeueAfterMilliseconds };
}

/** Creates the controller that takes checkpoints. */
export function checkpointController(parts: ControllerParts): Controller {
  const { informers, clock, random, dataFindings } = parts;
  const requeues = new RequeueSource();
  dataFindings.subscribe(requeues.enqueue);
  const captures = new Captures({ clock, random, enqueue: requeues.enqueue });
  const dependencies: CheckpointDependencies = {
    ...parts,
    statuses: new StatusWriter<Checkpoint>(informers.checkpoints.resource),
    ownWrites: new OwnWrites(informers.checkpoints),
    captures,
    turns: new CaptureTurns({ ...parts, captures, atOnce: parts.concurrentMoves }),
    usage: new CheckpointUsage(parts.cache, parts.quotas),
    readPreparation: preparationReader(parts.client),
  };
  const stop = informers.checkpoints.store.subscribe(({ type, object }) => {
    if (type === "deleted") forget(object, dependencies);
  });
  return {
    name: "checkpoint",
    watches: checkpointWatches(dependencies),
    reconcile: (key) => reconcileCheckpoint(key, dependencies),
    requeues,
    close: () => {
      stop();
      captures.close();
    },
  };
}
