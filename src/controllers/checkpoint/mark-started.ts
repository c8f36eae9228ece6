import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { RametError } from "../../base/errors.ts";
import { annotations, finalizers, labels } from "../../api/names/labels.ts";
import { keyOf } from "../../kube/object.ts";
import { addFinalizer } from "../common/finalizer.ts";
import type { CheckpointDependencies } from "./dependencies.ts";
import type { CapturableSource, CheckpointCapture } from "./state.ts";

/**
 * Before the first effect: the finalizer, and of which Pod this is. False: the Checkpoint is gone.
 * @throws RametError when the API server cannot be reached; that says nothing of the checkpoint, which is begun later
 */
export async function markStarted(taking: CheckpointCapture, dependencies: CheckpointDependencies): Promise<boolean> {
  try {
    return await mark(taking, dependencies);
  } catch (error) {
    if (RametError.from(error).code !== "NotFound") throw error;
    return false;
  }
}

async function mark(
  taking: CheckpointCapture,
  { informers, cache, ownWrites }: CheckpointDependencies,
): Promise<boolean> {
  const { resource } = informers.checkpoints;
  const { metadata } = taking.checkpoint;
  let latest = cache.checkpoint(keyOf(metadata)) ?? taking.checkpoint;
  for (let tries = 0; ; tries++) {
    if (latest.metadata.uid !== metadata.uid) return false;
    if (isMarked(latest, taking.source)) return true;
    try {
      const base = latest;
      await ownWrites.write(base, () =>
        addFinalizer(resource, base, finalizers.checkpoint, { metadata: marks(taking) }),
      );
      return true;
    } catch (error) {
      // Somebody wrote a label, say, since the cache saw it.
      if (RametError.from(error).code !== "Conflict" || tries >= mostTries) throw error;
      latest = await resource.get(metadata);
    }
  }
}

const mostTries = 5;

function isMarked({ metadata }: Checkpoint, { pod }: CapturableSource): boolean {
  const { annotations: found, finalizers: present } = metadata;
  return found?.[annotations.podUid] === pod.metadata.uid && (present?.includes(finalizers.checkpoint) ?? false);
}

function marks({ checkpointId, source, spec }: CheckpointCapture) {
  const { name, namespace } = source.sandbox.metadata;
  return {
    annotations: { [annotations.podUid]: source.pod.metadata.uid, [annotations.sandboxId]: `${namespace}--${name}` },
    labels: {
      [labels.sandboxName]: name,
      [labels.checkpointId]: checkpointId,
      [labels.checkpointType]: [...spec.contents].sort().join("-"),
    },
  };
}
