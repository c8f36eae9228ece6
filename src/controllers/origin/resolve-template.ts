import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { type ContentFields, contentsByDefault } from "../../api/kinds/checkpoint-spec.ts";
import { RametError } from "../../base/errors.ts";
import { withOwnDisruption } from "../../api/pod/disruption.ts";
import { parsePodTemplate, type PodTemplateSpec } from "../../api/schema/pod-template.ts";
import type { PauseStrategy } from "../../api/kinds/sandbox-parts.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import type { SandboxTemplate } from "../../api/kinds/sandbox-template.ts";
import type { Cache } from "../cluster/cache.ts";

export interface ResolvedTemplate {
  template: PodTemplateSpec;
  /** The sandbox names no template, and this one is its checkpoint's. */
  borrowed: boolean;
  /** `persistentContents` and `volumes` of the sandbox or else of its template. */
  contents: ContentFields;
  pauseStrategy: PauseStrategy | undefined;
  /** PersistentVolumeClaims to create for the sandbox, as in its spec or in the SandboxTemplate. */
  volumeClaims: Record<string, unknown>[];
}

/** A Sandbox, or the model of a new one. */
interface TemplateOwner {
  metadata: { namespace: string; annotations?: Record<string, string> | undefined };
  spec: Pick<Sandbox["spec"], "template" | "templateRef" | "volumeClaimTemplates" | keyof ContentFields>;
}

/**
 * Finds the template of a sandbox: its own, the SandboxTemplate that it names, or, without either, the template that was kept
 * with its checkpoint.
 */
export function resolveTemplate(
  sandbox: TemplateOwner,
  cache: Pick<Cache, "template" | "templatesOwnedBy">,
  checkpoint?: Checkpoint,
): ResolvedTemplate | { problem: RametError } {
  const { spec, metadata } = sandbox;
  try {
    if (spec.template !== undefined) {
      const template = parsePodTemplate(spec.template);
      const volumeClaims = spec.volumeClaimTemplates ?? [];
      const contents = contentsByDefault(spec);
      return { template, borrowed: false, contents, pauseStrategy: undefined, volumeClaims };
    }
    const { templateRef } = spec;
    if (templateRef !== undefined) {
      const found = cache.template(`${metadata.namespace}/${templateRef.name}`);
      return found === undefined ? { problem: unknown(sandbox, templateRef.name) } : fromObject(sandbox, found, false);
    }
    const kept = checkpoint && cache.templatesOwnedBy(checkpoint.metadata.uid)[0];
    return kept === undefined ? { problem: none(checkpoint) } : fromObject(sandbox, kept, true);
  } catch (error) {
    return { problem: RametError.from(error) };
  }
}

/** The sandbox's own volume claims take precedence over the template's. */
function fromObject(sandbox: TemplateOwner, { metadata, spec }: SandboxTemplate, borrowed: boolean): ResolvedTemplate {
  const template = parsePodTemplate(spec.template, `SandboxTemplate ${metadata.name}: spec.template`);
  return {
    template: borrowed ? withOwnDisruption(template, sandbox.metadata) : template,
    borrowed,
    contents: contentsByDefault(sandbox.spec, spec),
    pauseStrategy: spec.pauseStrategy,
    volumeClaims: sandbox.spec.volumeClaimTemplates ?? spec.volumeClaimTemplates ?? [],
  };
}

function unknown({ metadata: { namespace } }: TemplateOwner, name: string): RametError {
  return new RametError("NotFound", `The SandboxTemplate ${name} does not exist in the namespace ${namespace}`, {
    hint: `Create it; list the existing ones with: kubectl get sandboxtemplates -n ${namespace}`,
  });
}

function none(checkpoint: Checkpoint | undefined): RametError {
  if (checkpoint === undefined) {
    return new RametError("InvalidArgument", "The sandbox has neither spec.template nor spec.templateRef", {
      hint: "Set one of the two, or set the annotation ramet.dev/restore-from to a checkpoint",
    });
  }
  const { name } = checkpoint.metadata;
  return new RametError("NotFound", `The checkpoint ${name} has no stored template`, {
    hint: "Set the spec.template or spec.templateRef of the checkpoint's source",
  });
}
