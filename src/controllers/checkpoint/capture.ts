import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { annotations, finalizers, labels, restoreFromAnnotations } from "../../api/names/labels.ts";
import { apiVersion } from "../../api/schema/kind.ts";
import type { PodTemplateSpec } from "../../api/schema/pod-template.ts";
import { captureParts } from "../../backends/capture-parts.ts";
import type { CheckpointRecord } from "../../backends/checkpoint-record.ts";
import { sandboxRef } from "../../backends/runtime.ts";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import { controllerOf, keyOf } from "../../kube/object.ts";
import { retryConflicts } from "../../kube/apply.ts";
import { addFinalizer } from "../cluster/finalizer.ts";
import { resolveTemplate } from "../origin/resolve-template.ts";
import { quiesceWith } from "./quiesce.ts";
import type {
  CapturableSource,
  CheckpointAction,
  CheckpointCapture,
  CheckpointDependencies,
  CheckpointState,
} from "./state.ts";
import { writeCreating } from "./status.ts";

/**
 * Starts the capture outside the reconcile; the key is requeued when it ends. The write before it belongs to the reconcile,
 * which is repeated while the API server is unreachable. No cell is called before that write has succeeded.
 */
export async function startCapture(
  { checkpoint, checkpointId }: CheckpointState,
  { source, spec, maxBytes }: Extract<CheckpointAction, { do: "startCapture" }>,
  dependencies: CheckpointDependencies,
): Promise<void> {
  const { captures, usage } = dependencies;
  captures.occupy(checkpoint, { podUid: source.pod.metadata.uid });
  usage.start(checkpoint);
  const capture = { checkpoint, checkpointId, source, spec, maxBytes };
  if (!(await markStarted(capture, dependencies))) {
    usage.forget(checkpoint.metadata.uid);
    captures.forget(checkpoint);
    return;
  }
  captures.start(checkpoint, (signal) => takeCheckpoint(capture, dependencies, signal));
}

/**
 * Takes a checkpoint that is marked as started: captures the parts, and meanwhile writes the status and keeps the template.
 * A repeated call is safe, because the cell and the store know the id. `signal` ends the wait for the cell.
 */
async function takeCheckpoint(
  capture: CheckpointCapture,
  dependencies: CheckpointDependencies,
  signal: AbortSignal,
): Promise<CheckpointRecord> {
  // Neither delays the capture, and neither throws. Both end before the status reports the outcome.
  const concurrent = Promise.all([writeCreating(capture, dependencies), keepTemplate(capture, dependencies)]);
  return captureSource(capture, dependencies, signal).finally(() => concurrent);
}

async function captureSource(
  { checkpoint, checkpointId, source, spec, maxBytes }: CheckpointCapture,
  { backends, runtime, clock, usage, storeReports }: CheckpointDependencies,
  signal: AbortSignal,
): Promise<CheckpointRecord> {
  const name = { namespace: checkpoint.metadata.namespace, checkpointId };
  const { sandboxName: _, ttlMilliseconds: __, quiesce: commands, ...requested } = spec;
  const target = sandboxRef(source.sandbox, source.pod);
  const quiesce = quiesceWith(commands, { guest: () => runtime.guest(target), clock, signal });
  const request = { ...requested, source: target, name, quiesce, maxBytes, signal };
  try {
    const record = await captureParts(backends, request);
    storeReports.captured(checkpoint);
    return record;
  } catch (thrown) {
    const error = RametError.from(thrown);
    storeReports.captured(checkpoint, error);
    throw usage.explain(checkpoint, error);
  }
}

/**
 * Writes the finalizer and the Pod's UID to the Checkpoint, before the capture has any effect. Returns false if the Checkpoint
 * no longer exists.
 * @throws RametError if the API server is unreachable. The checkpoint has not failed; it starts when the write succeeds
 */
async function markStarted(capture: CheckpointCapture, dependencies: CheckpointDependencies): Promise<boolean> {
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
  const cached = cache.checkpoint(keyOf(metadata)) ?? capture.checkpoint;
  return retryConflicts(async (number) => {
    // The object changed after the cache read it; a label was written, for example.
    const latest = number > 1 ? await resource.get(metadata) : cached;
    if (latest.metadata.uid !== metadata.uid) return false;
    if (isMarked(latest, capture.source)) return true;
    await ownWrites.write(latest, () =>
      addFinalizer(resource, latest, finalizers.checkpoint, { metadata: marks(capture) }),
    );
    return true;
  }, 6);
}

function isMarked({ metadata }: Checkpoint, { pod }: CapturableSource): boolean {
  const { annotations: found, finalizers: present } = metadata;
  return found?.[annotations.podUid] === pod.metadata.uid && (present?.includes(finalizers.checkpoint) ?? false);
}

function marks({ checkpointId, source, spec }: CheckpointCapture) {
  const image = source.pod.metadata.annotations?.[annotations.image];
  const { name, namespace } = source.sandbox.metadata;
  return {
    annotations: {
      [annotations.podUid]: source.pod.metadata.uid,
      [annotations.sandboxId]: `${namespace}--${name}`,
      // A clone gets the same image, although the tag may have moved or the registry may be unreachable.
      ...defined({ [annotations.image]: image }),
    },
    labels: {
      [labels.sandboxName]: name,
      [labels.checkpointId]: checkpointId,
      [labels.checkpointType]: typeOf(spec),
    },
  };
}

function typeOf({ contents, volumes }: CheckpointCapture["spec"]): string {
  return [...contents, ...(volumes === "none" ? [] : ["volumes"])].sort().join("-");
}

/**
 * Keeps the source's template as a SandboxTemplate that the Checkpoint owns, so that a clone needs no template. OpenKruise
 * Agents' sandbox-manager does the same. The name is that of the Checkpoint, or the checkpoint id if that name is taken. A
 * failure is only logged: a clone of the checkpoint then needs its own template.
 */
async function keepTemplate(capture: CheckpointCapture, dependencies: CheckpointDependencies): Promise<void> {
  const { checkpoint, checkpointId } = capture;
  const { cache, log } = dependencies;
  if (cache.templatesOwnedBy(checkpoint.metadata.uid).length > 0) return;
  try {
    const spec = keptSpec(capture, dependencies);
    const names = [checkpoint.metadata.name, checkpointId];
    for (const name of names) if (await createTemplate(name, spec, { checkpoint, dependencies })) return;
  } catch (error) {
    log.warn({ checkpoint: keyOf(checkpoint.metadata), error: RametError.from(error).message }, "template not kept");
  }
}

function keptSpec({ source: { sandbox } }: CheckpointCapture, { cache }: CheckpointDependencies) {
  const resolved = resolveTemplate(sandbox, cache);
  if ("problem" in resolved) throw resolved.problem;
  const { runtimes, pauseStrategy } = sandbox.spec;
  const { persistentContents, volumes } = resolved.contents;
  return {
    template: withoutOrigin(resolved.template),
    ...(resolved.volumeClaims.length > 0 && { volumeClaimTemplates: resolved.volumeClaims }),
    ...(persistentContents !== undefined && persistentContents.length > 0 && { persistentContents }),
    ...defined({ volumes, runtimes, pauseStrategy }),
  };
}

/** Keeps a template for a Checkpoint. Returns false if another owner's template has the name. */
export async function createTemplate(
  as: string,
  spec: object,
  { checkpoint, dependencies }: Pick<CheckpointCapture, "checkpoint"> & { dependencies: CheckpointDependencies },
): Promise<boolean> {
  const { resource } = dependencies.informers.templates;
  const { name, namespace, uid } = checkpoint.metadata;
  const owner = { apiVersion, kind: "Checkpoint", name, uid, controller: true };
  const metadata = { name: as, namespace, ownerReferences: [owner] };
  const found = await resource.ensure({ apiVersion, kind: "SandboxTemplate", metadata, spec });
  return controllerOf(found)?.uid === uid;
}

/**
 * Removes the annotations about the origin: a clone of a clone is restored from its own checkpoint, not from the first one, and what
 * was requested for the volumes of one says nothing about the other.
 */
export function withoutOrigin(template: PodTemplateSpec): PodTemplateSpec {
  const kept = Object.entries(template.metadata?.annotations ?? {}).filter(
    ([key]) => key !== annotations.volumesOnRestore && !(restoreFromAnnotations as readonly string[]).includes(key),
  );
  return { ...template, metadata: { ...template.metadata, annotations: Object.fromEntries(kept) } };
}
