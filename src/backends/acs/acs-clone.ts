import { type Checkpoint, checkpointKind, type CheckpointManifest } from "../../api/kinds/checkpoint.ts";
import {
  type SandboxTemplateManifest,
  type SandboxTemplateSpec,
  sandboxTemplateKind,
} from "../../api/kinds/sandbox-template.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { annotations, restoreFromAnnotations } from "../../api/names/labels.ts";
import { defined } from "../../base/defined.ts";

/** The annotations that OpenKruise's manager writes on the Sandbox of a clone, and that ACS reads on its Pod template. */
const [, kruiseRestoreFrom, acsRestoreFrom] = restoreFromAnnotations;

/** A Sandbox that OpenKruise's or ACS' controllers make a clone. */
export interface AcsClone {
  annotations: Record<string, string>;
  spec: SandboxTemplateSpec;
}

/**
 * The clone of a checkpoint, as the page "Clone an Agent Sandbox with Checkpoint" of ACS shows it: the source's template with two
 * annotations. The Sandbox has the one that OpenKruise's manager writes.
 * @param source the template of the checkpoint's source
 */
export function acsClone(source: SandboxTemplateSpec, checkpointId: string): AcsClone {
  return {
    annotations: { [kruiseRestoreFrom]: checkpointId },
    spec: withAnnotations(source, { ...pausable, [acsRestoreFrom]: checkpointId }),
  };
}

/** The template, whose sandboxes can be captured: without the annotation, ACS captures no sandbox. */
export function acsCapturable(source: SandboxTemplateSpec): SandboxTemplateSpec {
  return withAnnotations(source, pausable);
}

/** The annotations of a set's Pod template that make its sandboxes clones. */
export function acsCloneAnnotations(checkpointId: string): Record<string, string> {
  return { ...pausable, [acsRestoreFrom]: checkpointId };
}

/** The request for a checkpoint. A sandbox's Pod has the sandbox's name. (Source: as `acsClone`.) */
export function acsCheckpointSpec(
  podName: string,
  persistentContents: readonly ("memory" | "filesystem")[] | undefined,
  ttlAfterFinished?: string,
): NonNullable<CheckpointManifest["spec"]> {
  return {
    podName,
    keepRunning: true,
    ...(persistentContents && { persistentContents: [...persistentContents] }),
    ...defined({ ttlAfterFinished }),
  };
}

/**
 * The whole template of a sandbox, with the fields that it takes from a SandboxTemplate.
 * @param named the SandboxTemplate to which it refers
 */
export function acsTemplateOf({ spec }: Sandbox, named: SandboxTemplateSpec | undefined): SandboxTemplateSpec {
  const { template, volumeClaimTemplates, persistentContents, runtimes } = spec;
  const own = Object.entries({ template, volumeClaimTemplates, persistentContents, runtimes });
  return { ...named, ...Object.fromEntries(own.filter(([, value]) => value !== undefined)) };
}

/**
 * The SandboxTemplate that keeps the template of a checkpoint's source. It has the name of the Checkpoint, which owns it. These
 * controllers keep no template of a checkpoint that they did not request themselves.
 */
export function acsKeptTemplate({ metadata }: Checkpoint, spec: SandboxTemplateSpec): SandboxTemplateManifest {
  const { name, namespace, uid } = metadata;
  const { apiVersion, kind } = checkpointKind;
  return {
    apiVersion: sandboxTemplateKind.apiVersion,
    kind: "SandboxTemplate",
    metadata: { name, namespace, ownerReferences: [{ apiVersion, kind, name, uid, controller: true }] },
    spec,
  };
}

const pausable = { [annotations.acsPauseEnabled]: "true" };

/** A template without the origin of its own sandbox, and with other annotations. It has no schema, so it can hold anything. */
function withAnnotations(source: SandboxTemplateSpec, added: Record<string, string>): SandboxTemplateSpec {
  const template = (source.template ?? {}) as { metadata?: { annotations?: Record<string, string> } };
  const own = Object.entries(template.metadata?.annotations ?? {});
  const origins: readonly string[] = [...restoreFromAnnotations, annotations.resolvedCheckpoint];
  const kept = Object.fromEntries(own.filter(([key]) => !origins.includes(key)));
  const metadata = { ...template.metadata, annotations: { ...kept, ...added } };
  return { ...source, template: { ...template, metadata } };
}
