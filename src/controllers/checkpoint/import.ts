import { SandboxTemplateSpec } from "../../api/kinds/sandbox-template.ts";
import type { VolumeImport } from "../../api/kinds/volume-import.ts";
import { labels } from "../../api/names/labels.ts";
import { withoutOrigin } from "../../api/pod/restore-spec.ts";
import { parsePodTemplate } from "../../api/schema/pod-template.ts";
import { recordOf } from "../../backends/checkpoint-parts.ts";
import type { CheckpointRecord } from "../../backends/checkpoint-record.ts";
import { RametError } from "../../base/errors.ts";
import { keyOf } from "../../kube/object.ts";
import { begin, keepTemplate } from "./capture.ts";
import { assertGuarded } from "./import-guard.ts";
import type { CheckpointDependencies, CheckpointState } from "./state.ts";
import { writeCreating } from "./status.ts";

type Import = Pick<CheckpointState, "checkpoint" | "checkpointId">;

/**
 * Imports the volumes that a Checkpoint names, outside the reconcile. The finalizer is written before anything exists. After a crash, a
 * repeat finds what the first attempt has created.
 */
export async function startImport(
  { checkpoint, checkpointId }: Import,
  volumeImport: VolumeImport,
  dependencies: CheckpointDependencies,
): Promise<void> {
  const marks = { labels: { [labels.checkpointId]: checkpointId, [labels.checkpointType]: "volumes" } };
  await begin(checkpoint, { occupied: {}, marks }, dependencies, (signal) =>
    imported({ checkpoint, checkpointId }, volumeImport, { ...dependencies, signal }),
  );
}

/** @throws RametError `ImportsDisabled`, `ImportNotGuarded`; `NotFound` without the template; as `Backend.importVolumes` */
async function imported(
  { checkpoint, checkpointId }: Import,
  { volumes, takeOwnership = false, templateRef }: VolumeImport,
  { signal, ...dependencies }: CheckpointDependencies & { signal: AbortSignal },
): Promise<CheckpointRecord> {
  const { client, backends, importsVolumes } = dependencies;
  const { namespace } = checkpoint.metadata;
  if (!importsVolumes) throw disabled();
  await assertGuarded(client, checkpoint);
  await writeCreating({ checkpoint, checkpointId }, dependencies);
  if (templateRef !== undefined) await keepNamedTemplate({ checkpoint, checkpointId }, templateRef.name, dependencies);
  const name = { namespace, checkpointId };
  const backend = backends.importer();
  return recordOf([await backend.importVolumes({ name, volumes, takesOwnership: takeOwnership, signal })]);
}

/** Keeps a copy of the template, as a capture does. A user without the right to read the Secrets of a template can still use it. */
async function keepNamedTemplate(
  { checkpoint, checkpointId }: Import,
  template: string,
  dependencies: CheckpointDependencies,
): Promise<void> {
  const { cache, informers } = dependencies;
  const { name, namespace, uid } = checkpoint.metadata;
  if (cache.templatesOwnedBy(uid).length > 0) return;
  const at = { namespace, name: template };
  // The client may have created it before this cache has it.
  const found = cache.template(keyOf(at)) ?? (await informers.templates.resource.find(at));
  if (found === undefined)
    throw new RametError("NotFound", `The SandboxTemplate ${template} does not exist in the namespace ${namespace}`, {
      hint: "Create it, then create another Checkpoint; or leave out volumeImport.templateRef",
    });
  const spec = SandboxTemplateSpec.parse(found.spec);
  const kept = { ...spec, template: withoutOrigin(parsePodTemplate(spec.template)) };
  if (await keepTemplate({ checkpoint, checkpointId }, kept, dependencies)) return;
  throw new RametError("AlreadyExists", `The template of the checkpoint ${name} cannot be kept: its names are taken`, {
    hint: `Delete the SandboxTemplate ${checkpointId}, or choose another name for the Checkpoint`,
  });
}

function disabled(): RametError {
  return new RametError("ImportsDisabled", "No volumes are imported: this installation does not allow it", {
    hint: "Ask an administrator to install with --import-volumes",
  });
}
