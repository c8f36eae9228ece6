import type { Checkpoint, CheckpointManifest } from "../api/kinds/checkpoint.ts";
import { checkpointState, isPreparing } from "../api/state/checkpoint.ts";
import { RametError } from "../base/errors.ts";
import { describeState, failureOf } from "../kube/conditions.ts";
import { hasWaitEnded, objectOf, type Objects, type Settled, type Wait, type Watched } from "./objects.ts";

/**
 * Captures a sandbox, and waits until the checkpoint has succeeded. One that fails, or that is not finished in time, is deleted: a
 * capture in progress ends first.
 * @throws RametError `Timeout` or `Canceled`; the error of the capture
 */
export async function capture(objects: Objects, manifest: CheckpointManifest, wait: Wait): Promise<Checkpoint> {
  return completed(objects, await objects.checkpoints.create(manifest, wait.signal), wait);
}

/** @param wait.isKept whether it is not deleted when only the wait has ended, as its request can be repeated. @default false */
export async function completed(
  objects: Pick<Objects, "checkpoints">,
  created: Checkpoint,
  { isKept = false, ...wait }: Wait & { isKept?: boolean },
): Promise<Checkpoint> {
  try {
    return objectOf(await untilCaptured(objects, created, wait));
  } catch (error) {
    if (!isKept || !hasWaitEnded(error)) await objects.checkpoints.remove(created).catch(() => undefined);
    throw error;
  }
}

/**
 * Waits until a checkpoint has succeeded or failed. While the cluster prepares what captures volumes, the time limit does not run.
 * @throws RametError `Timeout` or `Canceled`
 */
export async function untilCaptured(
  { checkpoints }: { checkpoints: Watched<Checkpoint> },
  created: Checkpoint,
  wait: Wait,
): Promise<Settled<Checkpoint>> {
  const { name } = created.metadata;
  for (let limit = wait.timeoutMilliseconds, latest = created; ;) {
    let seen = 0;
    let prepared = 0;
    const until = (checkpoint: Checkpoint | undefined, waited: number) => {
      if (isPreparing(latest)) prepared += waited - seen;
      seen = waited;
      latest = checkpoint ?? latest;
      return settledCheckpoint(name, checkpoint);
    };
    try {
      const following = { what: `the checkpoint ${name}`, until, describe: describeState };
      return await checkpoints.follow(latest, { ...following, ...wait, timeoutMilliseconds: limit });
    } catch (error) {
      if (isPreparing(latest)) prepared += limit - seen;
      if (RametError.from(error).code !== "Timeout" || prepared <= 0) throw error;
      limit = prepared;
    }
  }
}

/**
 * Waits until a checkpoint has its id, which it gets when the capture starts, or is deleted. Clones can be created as soon as
 * the id is known.
 * @throws RametError `Timeout` or `Canceled`
 */
export async function untilCapturing(
  { checkpoints }: { checkpoints: Watched<Checkpoint> },
  created: Checkpoint,
  wait: Wait,
): Promise<Checkpoint> {
  const { started } = await checkpoints.follow(created, {
    what: `the checkpoint ${created.metadata.name}`,
    until: (checkpoint) => {
      const isOver = checkpoint === undefined || checkpoint.metadata.deletionTimestamp !== undefined;
      return isOver || checkpoint.status?.checkpointId !== undefined ? { started: checkpoint ?? created } : undefined;
    },
    describe: describeState,
    ...wait,
  });
  return started;
}

function settledCheckpoint(name: string, checkpoint: Checkpoint | undefined): Settled<Checkpoint> | undefined {
  const deleted = { failure: new RametError("Conflict", `The checkpoint ${name} was deleted during the wait`) };
  if (checkpoint === undefined) return deleted;
  // The capture has succeeded, even if somebody has deleted its result since.
  if (checkpoint.status?.phase === "Succeeded") return { object: checkpoint };
  const state = checkpointState(checkpoint);
  if (state === "failed") return { failure: failureOf(`The checkpoint ${name} failed`, checkpoint, "EngineFailed") };
  return state === "deleting" || checkpoint.metadata.deletionTimestamp !== undefined ? deleted : undefined;
}
