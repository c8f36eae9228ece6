import { RametError } from "../../base/errors.ts";
import { apiVersion } from "../../api/schema/kind.ts";
import { restoreFromAnnotations } from "../../api/names/labels.ts";
import type { PodTemplateSpec } from "../../api/schema/pod-template.ts";
import { controllerOf, keyOf } from "../../kube/object.ts";
import { resolveTemplate } from "../common/resolve-template.ts";
import type { CheckpointDependencies } from "./dependencies.ts";
import type { CheckpointCapture } from "./state.ts";

/**
 * Keeps the source's template under the checkpoint's name, owned by it, so that a clone needs none of its own; the
 * reference's sandbox-manager does the same. Where the name is taken, the id is the name. A template that cannot be kept
 * makes the checkpoint no less usable: a clone then brings its own.
 */
export async function keepTemplate(taking: CheckpointCapture, dependencies: CheckpointDependencies): Promise<void> {
  const { checkpoint, checkpointId } = taking;
  const { cache, log } = dependencies;
  if (cache.templatesOwnedBy(checkpoint.metadata.uid).length > 0) return;
  try {
    const spec = keptSpec(taking, dependencies);
    const names = [checkpoint.metadata.name, checkpointId];
    for (const name of names) if (await createTemplate(name, spec, { taking, dependencies })) return;
  } catch (error) {
    log.warn({ checkpoint: keyOf(checkpoint.metadata), error: RametError.from(error).message }, "no template is kept");
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

/** False if the name is somebody else's. */
async function createTemplate(
  as: string,
  spec: object,
  { taking, dependencies }: { taking: CheckpointCapture; dependencies: CheckpointDependencies },
): Promise<boolean> {
  const { resource } = dependencies.informers.templates;
  const { name, namespace, uid } = taking.checkpoint.metadata;
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

/** A clone of a clone comes from its own checkpoint, not from the first one. */
function withoutOrigin(template: PodTemplateSpec): PodTemplateSpec {
  const kept = Object.entries(template.metadata?.annotations ?? {}).filter(
    ([key]) => !(restoreFromAnnotations as readonly string[]).includes(key),
  );
  return { ...template, metadata: { ...template.metadata, annotations: Object.fromEntries(kept) } };
}
