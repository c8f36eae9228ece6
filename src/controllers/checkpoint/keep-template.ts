import { restoreFromAnnotations } from "../../api/names/labels.ts";
import { apiVersion } from "../../api/schema/kind.ts";
import type { PodTemplateSpec } from "../../api/schema/pod-template.ts";
import { RametError } from "../../base/errors.ts";
import { controllerOf, keyOf } from "../../kube/object.ts";
import { resolveTemplate } from "../common/resolve-template.ts";
import type { CheckpointCapture, CheckpointDependencies } from "./state.ts";

/**
 * Keeps the source's template as a SandboxTemplate that the Checkpoint owns, so that a clone needs no template. OpenKruise
 * Agents' sandbox-manager does the same. The name is that of the Checkpoint, or the checkpoint id if that name is taken. A
 * failure is only logged: a clone of the checkpoint then needs its own template.
 */
export async function keepTemplate(capture: CheckpointCapture, dependencies: CheckpointDependencies): Promise<void> {
  const { checkpoint, checkpointId } = capture;
  const { cache, log } = dependencies;
  if (cache.templatesOwnedBy(checkpoint.metadata.uid).length > 0) return;
  try {
    const spec = keptSpec(capture, dependencies);
    const names = [checkpoint.metadata.name, checkpointId];
    for (const name of names) if (await createTemplate(name, spec, { capture, dependencies })) return;
  } catch (error) {
    log.warn({ checkpoint: keyOf(checkpoint.metadata), error: RametError.from(error).message }, "template not kept");
  }
}

function keptSpec({ source: { sandbox } }: CheckpointCapture, { cache }: CheckpointDependencies) {
  const resolved = resolveTemplate(sandbox, cache);
  if ("problem" in resolved) throw resolved.problem;
  const { runtimes, pauseStrategy } = sandbox.spec;
  const persistentContents = sandbox.spec.persistentContents ?? resolved.persistentContents;
  return {
    template: withoutOrigin(resolved.template),
    ...(resolved.volumeClaims.length > 0 && { volumeClaimTemplates: resolved.volumeClaims }),
    ...(persistentContents.length > 0 && { persistentContents }),
    ...(runtimes && { runtimes }),
    ...(pauseStrategy && { pauseStrategy }),
  };
}

/** Returns false if another owner's template has the name. */
async function createTemplate(
  as: string,
  spec: object,
  { capture, dependencies }: { capture: CheckpointCapture; dependencies: CheckpointDependencies },
): Promise<boolean> {
  const { resource } = dependencies.informers.templates;
  const { name, namespace, uid } = capture.checkpoint.metadata;
  const owner = { apiVersion, kind: "Checkpoint", name, uid, controller: true };
  const metadata = { name: as, namespace, ownerReferences: [owner] };
  try {
    await resource.create({ apiVersion, kind: "SandboxTemplate", metadata, spec });
    return true;
  } catch (error) {
    if (RametError.from(error).code !== "AlreadyExists") throw error;
    const found = await resource.find(metadata);
    return found !== undefined && controllerOf(found)?.uid === uid;
  }
}

/** Removes the restore-from annotations: a clone of a clone is restored from its own checkpoint, not from the first one. */
function withoutOrigin(template: PodTemplateSpec): PodTemplateSpec {
  const kept = Object.entries(template.metadata?.annotations ?? {}).filter(
    ([key]) => !(restoreFromAnnotations as readonly string[]).includes(key),
  );
  return { ...template, metadata: { ...template.metadata, annotations: Object.fromEntries(kept) } };
}
