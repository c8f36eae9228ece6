import { templateRevision } from "../cell/template-digest.ts";
import { RametError } from "../../base/errors.ts";
import { restoreFrom, restoreFromAnnotations } from "../names/labels.ts";
import { parsePodTemplate } from "../schema/pod-template.ts";
import type { SandboxSet } from "../kinds/sandbox-set.ts";
import type { SandboxTemplate, SandboxTemplateSpec } from "../kinds/sandbox-template.ts";

/** What all sandboxes of one state of a set are made from. */
export interface SetRevision {
  /** For the label `template-hash` and `status.updateRevision`: equal on every machine for equal specs. */
  hash: string;
  /** The SandboxTemplate that has the spec: the one that the set names, else one that is written out for the revision. */
  templateName: string;
  /** Whether it is written out, and so the set's own. */
  materialised: boolean;
  spec: SandboxTemplateSpec;
}

/** Finds the checkpoint id that a reference in a `restore-from` annotation stands for. */
export type ResolveOrigin = (reference: string) => string;

/**
 * The revision of a set as it is now: a pure function of its spec and of the template that it names.
 *
 * What the set says itself goes before the named template's; of the template's `pauseStrategy` the reference says that it
 * is information only.
 *
 * @param named the SandboxTemplate of `spec.templateRef`, if it exists
 * @throws RametError `InvalidArgument` or `NotFound` for a set that no sandbox can be made from, and what `resolve` throws
 */
export function setRevision(
  set: Pick<SandboxSet, "metadata" | "spec">,
  named: SandboxTemplate | undefined,
  resolve: ResolveOrigin,
): SetRevision {
  checkName(set);
  const spec = { template: pinned(podTemplate(set, named), resolve), ...besideTemplate(set.spec, named?.spec) };
  const hash = templateRevision(spec);
  const reference = set.spec.templateRef;
  return {
    hash,
    templateName: reference?.name ?? `${set.metadata.name}-${hash}`,
    materialised: reference === undefined,
    spec,
  };
}

function besideTemplate(
  own: SandboxSet["spec"],
  named: SandboxTemplateSpec = {},
): Omit<SandboxTemplateSpec, "template"> {
  const { volumeClaimTemplates, persistentContents, runtimes } = { ...named, ...own };
  return {
    ...(volumeClaimTemplates && { volumeClaimTemplates }),
    ...(persistentContents && { persistentContents }),
    ...(runtimes && { runtimes }),
    ...(own.pauseStrategy && { pauseStrategy: own.pauseStrategy }),
  };
}

type Template = Record<string, unknown>;

function podTemplate({ metadata, spec }: Pick<SandboxSet, "metadata" | "spec">, named: SandboxTemplate | undefined) {
  if (spec.templateRef === undefined) return readable(spec.template, "spec.template");
  const { name } = spec.templateRef;
  if (named !== undefined) return readable(named.spec.template, `SandboxTemplate ${name}: spec.template`);
  throw new RametError(
    "NotFound",
    `The SandboxTemplate ${name} does not exist in the namespace ${metadata.namespace}`,
    {
      hint: `Create it, and the set is filled; kubectl get sandboxtemplates -n ${metadata.namespace} lists those there are`,
    },
  );
}

/** As it was written, without nulls. One that names a checkpoint and has no spec takes that checkpoint's own template. */
function readable(template: Template | undefined, field: string): Template {
  if (template !== undefined && template["spec"] === undefined) {
    const { spec: _, ...rest } = parsePodTemplate({ ...template, spec: placeholder }, field);
    if (restoreFrom({ metadata: {}, spec: {} }, rest) !== undefined) return rest;
  }
  if (template !== undefined) return parsePodTemplate(template, field);
  throw new RametError("InvalidArgument", "The set has neither spec.template nor spec.templateRef", {
    hint: "Give one of the two; a template may be no more than metadata with the annotation ramet.dev/restore-from",
  });
}

const placeholder = { containers: [{ name: "main", image: "none" }] };

/** With the checkpoint's id in place of a name: a sandbox that was made from an older one is then of an older revision. */
function pinned(template: Template, resolve: ResolveOrigin): Template {
  const reference = restoreFrom({ metadata: {}, spec: {} }, template);
  if (reference === undefined) return template;
  const id = resolve(reference);
  const { annotations, ...metadata } = template["metadata"] as { annotations: Record<string, string> };
  const others = Object.entries(annotations).filter(([key]) => !isRestoreFrom(key));
  const written = Object.keys(annotations).filter(isRestoreFrom);
  const ids = written.map((key): [string, string] => [key, id]);
  return { ...template, metadata: { ...metadata, annotations: Object.fromEntries([...others, ...ids]) } };
}

function isRestoreFrom(key: string): boolean {
  return (restoreFromAnnotations as readonly string[]).includes(key);
}

/** Its sandboxes carry it in a label. */
function checkName({ metadata: { name } }: Pick<SandboxSet, "metadata">): void {
  if (name.length <= longestLabel) return;
  throw new RametError("InvalidArgument", `The set's name has ${name.length} characters, and a label no more than 63`, {
    hint: "Create the set anew under a shorter name: its sandboxes carry it in the label agents.kruise.io/sandbox-pool",
  });
}

const longestLabel = 63;
