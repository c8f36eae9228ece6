import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { annotations, finalizers, labels } from "../../api/names/labels.ts";
import { RametError } from "../../base/errors.ts";
import { keyOf } from "../../kube/object.ts";
import { addFinalizer } from "../common/finalizer.ts";
import type { CapturableSource, CheckpointCapture, CheckpointDependencies } from "./state.ts";

/**
 * Writes the finalizer and the Pod's UID to the Checkpoint, before the capture has any effect. Returns false if the Checkpoint
 * no longer exists.
 * @throws RametError if the API server is unreachable. The checkpoint has not failed; it starts when the write succeeds
 */
export async function markStarted(capture: CheckpointCapture, dependencies: CheckpointDependencies): Promise<boolean> {
  try {
    return await mark(capture, dependencies);
  } catch (error) {
    if (RametError.from(error).code !== "NotFound") throw error;
    return false;
  }
}

async function mark(
  capture: CheckpointCapture,
  { informers, cache, ownWrites }: CheckpointDependencies,
): Promise<boolean> {
  const { resource } = informers.checkpoints;
  const { metadata } = capture.checkpoint;
  let latest = cache.checkpoint(keyOf(metadata)) ?? capture.checkpoint;
  for (let tries = 0; ; tries++) {
    if (latest.metadata.uid !== metadata.uid) return false;
    if (isMarked(latest, capture.source)) return true;
    try {
      const base = latest;
      await ownWrites.write(base, () =>
        addFinalizer(resource, base, finalizers.checkpoint, { metadata: marks(capture) }),
      );
      return true;
    } catch (error) {
      // The object changed after the cache read it; a label was written, for example.
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
