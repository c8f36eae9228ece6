import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import { contentsByDefault } from "../kinds/checkpoint-spec.ts";
import type { SandboxSet } from "../kinds/sandbox-set.ts";
import type { SandboxTemplate, SandboxTemplateSpec } from "../kinds/sandbox-template.ts";
import type { SandboxManifest } from "../kinds/sandbox.ts";
import { annotations, labels, restoreFrom, restoreFromAnnotations } from "../names/labels.ts";
import { withOwnDisruption } from "../pod/disruption.ts";
import { templateRevision } from "../pod/restore-spec.ts";
import { apiVersion } from "../schema/kind.ts";
import { parsePodTemplate } from "../schema/pod-template.ts";

/** The spec of all sandboxes of one revision of a set. */
export interface SetRevision {
  /** For the label `template-hash` and `status.updateRevision`. Equal specs have equal hashes on every machine. */
  hash: string;
  /** The SandboxTemplate with the spec: the one that the set names, or one that is written for the revision. */
  templateName: string;
  /** Whether the template is written for the revision and owned by the set. */
  materialised: boolean;
  spec: SandboxTemplateSpec;
}

/** Resolves the reference in a `restore-from` annotation to a checkpoint id. */
type ResolveOrigin = (reference: string) => string;

/**
 * The current revision of a set: a pure function of its spec and of the template that it names. Fields of the set take precedence
 * over those of the named template. The template's `pauseStrategy` is not used, as in OpenKruise Agents.
 *
 * @param named the SandboxTemplate of `spec.templateRef`, if it exists
 * @throws RametError `InvalidArgument` or `NotFound` if no sandbox can be created from the set, and errors of `resolve`
 */
export function setRevision(
  set: Pick<SandboxSet, "metadata" | "spec">,
  named: SandboxTemplate | undefined,
  resolve: ResolveOrigin,
): SetRevision {
  checkName(set);
  const template = withOwnDisruption<Template>(pinned(podTemplate(set, named), resolve), set.metadata);
  const spec = { template, ...otherFields(set.spec, named?.spec) };
  const hash = templateRevision(spec);
  const reference = set.spec.templateRef;
  return {
    hash,
    templateName: reference?.name ?? `${set.metadata.name}-${hash}`,
    materialised: reference === undefined,
    spec,
  };
}

function otherFields(own: SandboxSet["spec"], named: SandboxTemplateSpec = {}): Omit<SandboxTemplateSpec, "template"> {
  const { volumeClaimTemplates, runtimes } = { ...named, ...own };
  const { persistentContents, volumes } = contentsByDefault(own, named);
  return {
    ...defined({ volumeClaimTemplates }),
    ...(persistentContents && { persistentContents: [...persistentContents] }),
    ...(volumes && { volumes: [...volumes] }),
    ...defined({ runtimes, pauseStrategy: own.pauseStrategy }),
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
    { hint: `Create it, or list the existing ones with: kubectl get sandboxtemplates -n ${metadata.namespace}` },
  );
}

/** The template without nulls. If it names a checkpoint and has no spec, the template of the checkpoint is used. */
function readable(template: Template | undefined, field: string): Template {
  if (template !== undefined && template["spec"] === undefined) {
    const { spec: _, ...rest } = parsePodTemplate({ ...template, spec: placeholder }, field);
    if (restoreFrom({ metadata: {}, spec: {} }, rest) !== undefined) return rest;
  }
  if (template !== undefined) return parsePodTemplate(template, field);
  throw new RametError("InvalidArgument", "The set has neither spec.template nor spec.templateRef", {
    hint: "Set one of the two; a template can be just metadata with the annotation ramet.dev/restore-from",
  });
}

const placeholder = { containers: [{ name: "main", image: "none" }] };

/** Replaces the reference by the checkpoint id, so that a reference that moves to another checkpoint changes the revision. */
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

/** The name is also a label value on the sandboxes. */
function checkName({ metadata: { name } }: Pick<SandboxSet, "metadata">): void {
  if (name.length <= longestLabel) return;
  throw new RametError("InvalidArgument", `The name of the set has ${name.length} characters; at most 63 are allowed`, {
    hint: "Create the set with a shorter name: it is the value of the label agents.kruise.io/sandbox-pool on its sandboxes",
  });
}

const longestLabel = 63;

/**
 * An unclaimed sandbox of a set, owned by it.
 *
 * The Sandbox also gets the labels and annotations of the Pod template, except internal ones. It contains its template, because a
 * claimed sandbox outlives the set and its revisions.
 *
 * @param random from 0 to below 1. The generated name may exist already; the API server then rejects it
 */
export function setSandbox(
  { metadata, spec }: Pick<SandboxSet, "metadata" | "spec">,
  revision: SetRevision,
  random: () => number,
): SandboxManifest & { metadata: { name: string; namespace: string } } {
  const { name, namespace, uid } = metadata;
  const { template, ...rest } = revision.spec;
  const templateMetadata = template?.["metadata"] as Partial<Record<"labels" | "annotations", Strings>> | undefined;
  const publicAnnotations = withoutInternalKeys(templateMetadata?.annotations);
  return {
    apiVersion,
    kind: "Sandbox",
    metadata: {
      name: `${prefixOf(name)}-${suffix(random)}`,
      namespace,
      labels: {
        ...withoutInternalKeys(templateMetadata?.labels),
        [labels.sandboxPool]: name,
        [labels.sandboxTemplate]: spec.templateRef?.name ?? name,
        [labels.sandboxClaimed]: "false",
        [labels.templateHash]: revision.hash,
      },
      ...(Object.keys(publicAnnotations).length > 0 && { annotations: publicAnnotations }),
      ownerReferences: [{ apiVersion, kind: "SandboxSet", name, uid, controller: true, blockOwnerDeletion: true }],
    },
    spec: { ...rest, ...(template?.["spec"] !== undefined && { template }) },
  };
}

type Strings = Record<string, string>;

function withoutInternalKeys(values: Strings = {}): Strings {
  return Object.fromEntries(Object.entries(values).filter(([key]) => kept.has(key) || !internal.test(key)));
}

const internal = /^(e2b\.)?agents\.kruise\.io\//;
const kept: ReadonlySet<string> = new Set([
  annotations.cleanupEnabled,
  annotations.cleanupRetainOnFailure,
  annotations.reservePausedSandboxDuration,
  ...restoreFromAnnotations,
]);

/** The name of a sandbox is a DNS label; that of a set can be longer and have dots. */
function prefixOf(name: string): string {
  return name
    .slice(0, 63 - 1 - suffixLength)
    .replaceAll(".", "-")
    .replace(/-+$/, "");
}

function suffix(random: () => number): string {
  return Array.from({ length: suffixLength }, () => alphabet[Math.floor(random() * alphabet.length)]).join("");
}

/** 14 million names for each set. */
const suffixLength = 5;
/** As in names generated by Kubernetes: no vowels, so that no name reads as a word. */
const alphabet = "bcdfghjklmnpqrstvwxz2456789";
