import { RametError } from "../../base/errors.ts";
import type { CheckpointRecord } from "../../backends/backend.ts";
import { keyOf } from "../../kube/object.ts";
import type { CheckpointDependencies } from "./dependencies.ts";
import { keepTemplate } from "./keep-template.ts";
import type { Taking } from "./state.ts";

/**
 * Takes a checkpoint that is marked as begun: the cut, and beside it what users see of it. It can be begun anew at any time;
 * the cell and the store know the id. `signal` ends the wait for the cell.
 */
export async function takeCheckpoint(
  taking: Taking,
  dependencies: CheckpointDependencies,
  signal: AbortSignal,
): Promise<CheckpointRecord> {
  // Neither holds up the cut, and neither throws; both are through before the status says how it ended.
  const beside = Promise.all([showCreating(taking, dependencies), keepTemplate(taking, dependencies)]);
  return capture(taking, dependencies, signal).finally(() => beside);
}

async function capture(
  { checkpoint, checkpointId, source, wish }: Taking,
  { backend }: CheckpointDependencies,
  signal: AbortSignal,
): Promise<CheckpointRecord> {
  const handle = { namespace: checkpoint.metadata.namespace, checkpointId };
  const target = { sandboxUid: source.sandbox.metadata.uid, ip: source.pod.status?.podIP ?? "" };
  const { contents, keepRunning } = wish;
  const { record } = await backend.cut({ source: target, handle, contents, keepRunning, signal });
  return record ?? backend.whenReady(handle);
}

/** News, not truth: a failure to say that it is being taken must not keep it from being taken. */
async function showCreating(
  { checkpoint, checkpointId }: Taking,
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
