import type { Checkpoint } from "../../api/checkpoint.ts";
import { RametError } from "../../api/errors.ts";
import { annotations, finalizers, labels } from "../../api/labels.ts";
import type { CheckpointRecord } from "../../backends/backend.ts";
import { keyOf } from "../../kube/object.ts";
import { addFinalizer } from "../finalizer.ts";
import type { CheckpointDependencies } from "./dependencies.ts";
import { keepTemplate } from "./keep-template.ts";
import type { CapturableSource, Taking } from "./state.ts";

/**
 * Takes a checkpoint: the finalizer, then the cut, and beside the cut what users see of it. It can be begun anew at any
 * time; the cell and the store know the id.
 */
export async function takeCheckpoint(taking: Taking, dependencies: CheckpointDependencies): Promise<CheckpointRecord> {
  await mark(taking, dependencies);
  // Neither holds up the cut; both are through before the status says Succeeded.
  const beside = Promise.all([showCreating(taking, dependencies), keepTemplate(taking, dependencies)]);
  const [record] = await Promise.all([capture(taking, dependencies), beside]);
  return record;
}

async function capture(
  { checkpoint, checkpointId, source, wish }: Taking,
  { backend }: CheckpointDependencies,
): Promise<CheckpointRecord> {
  const handle = { namespace: checkpoint.metadata.namespace, checkpointId };
  const target = { sandboxUid: source.sandbox.metadata.uid, ip: source.pod.status?.podIP ?? "" };
  const { contents, keepRunning } = wish;
  const { record } = await backend.cut({ source: target, handle, contents, keepRunning });
  return record ?? backend.whenReady(handle);
}

/** Before the first effect: the finalizer, and of which Pod this is. */
async function mark(taking: Taking, { informers, cache, ownWrites }: CheckpointDependencies): Promise<void> {
  const { resource } = informers.checkpoints;
  const { metadata } = taking.checkpoint;
  let latest = cache.checkpoint(keyOf(metadata)) ?? taking.checkpoint;
  for (let tries = 0; ; tries++) {
    if (latest.metadata.uid !== metadata.uid) throw gone(metadata.name);
    if (isMarked(latest, taking.source)) return;
    try {
      const base = latest;
      await ownWrites.write(base, () =>
        addFinalizer(resource, base, finalizers.checkpoint, { metadata: marks(taking) }),
      );
      return;
    } catch (error) {
      // Somebody wrote a label, say, since the cache saw it.
      if (RametError.from(error).code !== "Conflict" || tries >= mostMarkTries) throw error;
      latest = await resource.get(metadata);
    }
  }
}

function isMarked({ metadata }: Checkpoint, { pod }: CapturableSource): boolean {
  const { annotations: found, finalizers: present } = metadata;
  return found?.[annotations.podUid] === pod.metadata.uid && (present?.includes(finalizers.checkpoint) ?? false);
}

function marks({ checkpointId, source, wish }: Taking) {
  const { name, namespace } = source.sandbox.metadata;
  return {
    annotations: { [annotations.podUid]: source.pod.metadata.uid, [annotations.sandboxId]: `${namespace}--${name}` },
    labels: {
      [labels.sandboxName]: name,
      [labels.checkpointId]: checkpointId,
      [labels.checkpointType]: [...wish.contents].sort().join("-"),
    },
  };
}

function gone(name: string): RametError {
  return new RametError("Canceled", `The checkpoint ${name} was not taken: it was deleted before it began`);
}

const mostMarkTries = 5;

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
