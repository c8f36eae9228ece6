import type { Checkpoint, CheckpointStatus } from "../../api/kinds/checkpoint.ts";
import { finalizers } from "../../api/names/labels.ts";
import { isLocalNode } from "../../api/names/system-names.ts";
import { volumeClaims } from "../../api/pod/volume-claims.ts";
import type { Pod } from "../../api/schema/pod.ts";
import { findParts, type PartsRemoval, removeParts } from "../../backends/checkpoint-parts.ts";
import { partsOf } from "../../backends/checkpoint-record.ts";
import { sandboxRef } from "../../backends/runtime.ts";
import { RametError } from "../../base/errors.ts";
import { dataNameOf, ownDataNameOf } from "../cluster/pause-checkpoint.ts";
import { startCapture } from "./capture.ts";
import { isOfDisruption } from "./gather.ts";
import { startImport } from "./import.ts";
import { isShared, shareStored } from "./share-stored.ts";
import type { CapturableSource, CheckpointAction, CheckpointDependencies, CheckpointState } from "./state.ts";
import { writePhase } from "./status.ts";

/** Carries out one action. Every action can be repeated: an existing or a deleted object is no error. */
export async function applyAction(
  state: CheckpointState,
  action: CheckpointAction,
  dependencies: CheckpointDependencies,
): Promise<unknown> {
  const { checkpoint } = state;
  switch (action.do) {
    case "startCapture":
      return startCapture(state, action, dependencies);
    case "shareStored":
      return shareStored(state, action, dependencies);
    case "startImport":
      return startImport(state, action.volumeImport, dependencies);
    case "findPublished":
      findPublished(state, action, dependencies);
      return;
    case "discard": {
      const own = [{ namespace: checkpoint.metadata.namespace, checkpointId: state.checkpointId }];
      return removeParts(dependencies.backends, { data: own, volumes: own, parts: action.record.parts });
    }
    case "stopSource": {
      const { sandbox, pod } = action.source;
      const why = `stopped by the checkpoint ${checkpoint.metadata.name} (keepRunning is false)`;
      await dependencies.runtime.stop(sandboxRef(sandbox, pod), why);
      if (isReplaced(checkpoint, action.source, dependencies)) await removeEnded(pod, dependencies);
      return;
    }
    case "deleteCheckpoint": {
      const { uid } = checkpoint.metadata;
      return dependencies.informers.checkpoints.resource.delete(checkpoint.metadata, { uid });
    }
    case "removeData":
      return removeData(checkpoint, action.status, dependencies);
  }
}

/**
 * Whether the next Pod of a saved sandbox need not wait until the kubelet has noticed the end of this one: nothing in it runs any more, as
 * its cell has captured the sandbox to end it and answers that it stops, and nothing else has to be ended or unmounted.
 */
function isReplaced(
  checkpoint: Checkpoint,
  source: CapturableSource,
  { departures, nodes }: CheckpointDependencies,
): boolean {
  const { metadata, spec } = source.pod;
  const volumes = spec.volumes ?? [];
  const isCellAlone =
    spec.containers.length === 1 && (spec.initContainers ?? []).every((one) => one["restartPolicy"] !== "Always");
  const isDetached = volumeClaims(volumes, metadata.name).length === 0 && volumes.every((one) => !("csi" in one));
  return (
    isOfDisruption(checkpoint, source, departures) &&
    isCellAlone &&
    isDetached &&
    // It has no kubelet, and removes its Pods as soon as they end.
    !isLocalNode(nodes.store.get(spec.nodeName ?? "")?.metadata.labels)
  );
}

async function removeEnded({ metadata }: Pod, { informers }: CheckpointDependencies): Promise<void> {
  await informers.pods.resource.delete(metadata, { uid: metadata.uid, gracePeriodSeconds: 0 });
}

function findPublished(
  { checkpoint, checkpointId }: CheckpointState,
  { otherwise }: Extract<CheckpointAction, { do: "findPublished" }>,
  { backends, captures }: CheckpointDependencies,
): void {
  const { namespace } = checkpoint.metadata;
  captures.replace(checkpoint, () =>
    findParts(backends, { namespace, checkpointId }, { isAdopted: true }).catch((error: unknown) => {
      throw RametError.from(error).code === "CheckpointLost" ? otherwise : error;
    }),
  );
}

/** Removes the data before the Checkpoint, so that a deleted Checkpoint leaves nothing in the store. */
async function removeData(
  checkpoint: Checkpoint,
  status: CheckpointStatus,
  dependencies: CheckpointDependencies,
): Promise<void> {
  const { informers, cache, backends, captures } = dependencies;
  const { uid } = checkpoint.metadata;
  // Nothing may be created after the removal.
  if (checkpoint.spec.volumeImport !== undefined) await captures.end(checkpoint);
  const statusWritten = writePhase(checkpoint, status, dependencies);
  const names = namesToRemove(checkpoint, dependencies);
  await Promise.all([
    removeParts(backends, { ...names, parts: partsOf(checkpoint.status?.ramet) }),
    ...cache
      .templatesOwnedBy(uid)
      .map(({ metadata }) => informers.templates.resource.delete(metadata, { uid: metadata.uid })),
  ]);
  await statusWritten;
  const latest = await informers.checkpoints.resource.find(checkpoint.metadata);
  if (latest?.metadata.uid === uid) {
    await informers.checkpoints.resource.removeFinalizer(latest, finalizers.checkpoint);
  }
  for (const name of [...names.data, ...names.volumes]) dependencies.dataFindings.forget(name);
  forget(checkpoint, dependencies);
}

/** Checkpoints of paused sandboxes share data, and volumes with it. The last one removes them. */
function namesToRemove(
  checkpoint: Checkpoint,
  dependencies: CheckpointDependencies,
): Pick<PartsRemoval, "data" | "volumes"> {
  const data = dataNameOf(checkpoint);
  const own = ownDataNameOf(checkpoint);
  const isOwn = own.checkpointId === data.checkpointId;
  if (isShared(checkpoint, dependencies)) return { data: [], volumes: isOwn ? [] : [own] };
  return { data: [data], volumes: isOwn ? [own] : [own, data] };
}

export function forget(checkpoint: Checkpoint, { captures, usage }: CheckpointDependencies): void {
  captures.forget(checkpoint);
  usage.forget(checkpoint.metadata.uid);
}
