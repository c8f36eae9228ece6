import { RametError } from "../../base/errors.ts";
import { apiVersion } from "../../api/schema/kind.ts";
import { annotations, labels } from "../../api/names/labels.ts";
import type { SandboxSet } from "../../api/kinds/sandbox-set.ts";
import type { SetRevision } from "../../api/set/set-revision.ts";
import { controllerOf, keyOf } from "../../kube/object.ts";
import type { SetDependencies } from "./dependencies.ts";
import type { SetAction } from "./state.ts";

/**
 * Writes a revision out as a SandboxTemplate, for people to read and compare. No sandbox depends on it, so a name that is
 * somebody else's is left to them.
 */
export async function writeTemplate(
  set: SandboxSet,
  { templateName, hash, spec }: SetRevision,
  { informers: { templates }, newTemplates, events }: SetDependencies,
): Promise<void> {
  const { name, namespace, uid } = set.metadata;
  const key = keyOf({ namespace, name: templateName });
  if (newTemplates.has(key)) return;
  const owner = { apiVersion, kind: "SandboxSet", name, uid, controller: true, blockOwnerDeletion: false };
  const metadata = {
    name: templateName,
    namespace,
    labels: { [labels.sandboxPool]: name, [labels.templateHash]: hash },
    ownerReferences: [owner],
  };
  try {
    await templates.resource.create({ apiVersion, kind: "SandboxTemplate", metadata, spec });
  } catch (error) {
    if (RametError.from(error).code !== "AlreadyExists") throw error;
    const found = await templates.resource.find(metadata);
    const holder = found && controllerOf(found);
    // An earlier set of this name had it, and it is on its way out: the key comes again with its end.
    if (holder?.kind === "SandboxSet" && holder.uid !== uid) return;
    if (holder?.uid !== uid) events.record(set, taken(templateName));
  }
  newTemplates.add(key);
}

function taken(name: string) {
  const note = `A SandboxTemplate ${name} exists and is not this set's, so the present revision is not written out`;
  return { type: "Warning", reason: "TemplateNameTaken", action: "WriteTemplate", note } as const;
}

/** Says of a revision that nobody needs it, or takes that back. */
export async function markTemplate(
  { template: { metadata }, candidate }: Extract<SetAction, { do: "markTemplate" }>,
  { informers: { templates } }: SetDependencies,
): Promise<void> {
  const { uid } = metadata;
  const mark = { [annotations.cleanupCandidate]: candidate ? "true" : null };
  await templates.resource.mergePatch(metadata, { metadata: { uid, annotations: mark } });
}
