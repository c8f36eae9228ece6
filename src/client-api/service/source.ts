import { type ContentFields, contentsByDefault } from "../../api/kinds/checkpoint-spec.ts";
import { type Checkpoint, volumeParts } from "../../api/kinds/checkpoint.ts";
import type { SandboxSet } from "../../api/kinds/sandbox-set.ts";
import type { SandboxTemplate, SandboxTemplateSpec } from "../../api/kinds/sandbox-template.ts";
import { type Sandbox, hasVolumes } from "../../api/kinds/sandbox.ts";
import { parseClientName } from "../../api/names/client-names.ts";
import { restoreFrom } from "../../api/names/labels.ts";
import { clusterTemplatePrefix } from "../../api/names/system-names.ts";
import { templateRevision, withoutOrigin } from "../../api/pod/restore-spec.ts";
import { PodTemplateSpec } from "../../api/schema/pod-template.ts";
import { defaultTag, resolveOrigin, tagsOf } from "../../api/snapshot/snapshot-reference.ts";
import { expiryOf, isCloneable } from "../../api/state/checkpoint.ts";
import { RametError, resultOr } from "../../base/errors.ts";
import { controllerOf } from "../../kube/object.ts";
import { currentRevision } from "../../operations/claim/cold-sandbox.ts";
import { awaitInCache } from "./cache-lag.ts";
import type { ServiceParts } from "./parts.ts";

/** The source that a sandbox is created from. */
export type Source =
  | { kind: "set"; set: SandboxSet }
  | { kind: "template"; name: string }
  /** @property reference a checkpoint id or a named snapshot, in the form of the annotation `restore-from` */
  | { kind: "checkpoint"; reference: string; checkpoint: Checkpoint | undefined };

type SourceParts = Pick<ServiceParts, "known" | "aliases" | "clock">;

/**
 * Finds what a client's name means: a SandboxSet, a named snapshot (`name`, `name@7`), a SandboxTemplate, or the id of a
 * checkpoint, in this order. Clients of other systems add `:default` and their own namespace: `team/name:default`.
 * @throws RametError `NotFound`
 */
export function findSource(parts: SourceParts, namespace: string, text: string): Source {
  const { known, aliases } = parts;
  const name = referenceOf(known, namespace, text);
  const at = (objectName: string) => `${namespace}/${objectName}`;
  const set = known.set(at(name));
  if (set !== undefined && isKept(set)) return { kind: "set", set };
  const [snapshotName = ""] = name.split("@");
  const snapshot = known.snapshot(at(snapshotName));
  if (snapshot !== undefined && isKept(snapshot)) {
    const id = resolveOrigin(namespace, name, known);
    return { kind: "checkpoint", reference: name, checkpoint: known.checkpointById(namespace, id) };
  }
  const template = [name, `${clusterTemplatePrefix}${name}`].find((each) => known.template(at(each)) !== undefined);
  if (template !== undefined) return { kind: "template", name: template };
  // The ids of other controllers may have capitals.
  for (const id of [name, text]) {
    const checkpoint = known.checkpointById(namespace, id);
    if (checkpoint !== undefined && isKept(checkpoint) && !hasExpired(parts, checkpoint))
      return { kind: "checkpoint", reference: id, checkpoint };
  }
  const alias = aliases.get(name);
  if (alias !== undefined) return findSource({ ...parts, aliases: new Map() }, namespace, alias);
  throw new RametError(
    "NotFound",
    `${JSON.stringify(text.slice(0, 80))} is not a set, a named snapshot, a template or a checkpoint of the namespace ${namespace}`,
    { hint: `List them with: kubectl get sandboxsets,namedsnapshots,sandboxtemplates,checkpoints -n ${namespace}` },
  );
}

/**
 * Finds a source like {@link findSource}, also one that another replica has just written. The meaning of a named snapshot and its tags is
 * read from the API server: the cache would name the version that they have left.
 * @throws RametError `NotFound`; `CheckpointNotReady` for a named snapshot without a version
 */
export async function currentSource(
  parts: Pick<ServiceParts, "informers" | "known" | "aliases" | "clock">,
  namespace: string,
  text: string,
  signal: AbortSignal,
): Promise<Source> {
  const { name } = parseClientName(text, namespace);
  const key = `${namespace}/${name}`;
  if (parts.known.snapshot(key) === undefined) return awaitInCache(parts, () => findSource(parts, namespace, text));
  const current = await parts.informers.snapshots.resource.find({ namespace, name }, { signal });
  const snapshot = (each: string) => (each === key ? current : parts.known.snapshot(each));
  return findSource({ ...parts, known: { ...parts.known, snapshot } }, namespace, text);
}

/** The sets and templates of a namespace, by name; not templates that are kept for checkpoints. */
export function listTemplates(
  { informers, known }: Pick<ServiceParts, "informers" | "known">,
  namespace: string,
): (SandboxSet | SandboxTemplate)[] {
  const templates = informers.templates.store.list().filter(({ metadata }) => metadata.namespace === namespace);
  const own = templates.filter(({ metadata }) => (metadata.ownerReferences ?? []).length === 0);
  return [...known.setsIn(namespace), ...own].toSorted((a, b) => templateName(a).localeCompare(templateName(b)));
}

/** @throws RametError `NotFound` */
export function findTemplate(parts: ServiceParts, namespace: string, name: string): SandboxSet | SandboxTemplate {
  const source = findSource(parts, namespace, name);
  const template = source.kind === "template" ? source.name : "";
  const found = source.kind === "set" ? source.set : parts.known.template(`${namespace}/${template}`);
  if (found === undefined) throw new RametError("NotFound", `The template ${name.slice(0, 80)} does not exist`);
  return found;
}

/** As clients name the templates of a cluster. */
export function templateName({ metadata: { name } }: SandboxSet | SandboxTemplate): string {
  return name.startsWith(clusterTemplatePrefix) ? name.slice(clusterTemplatePrefix.length) : name;
}

/** Whether its time is over. The controllers delete it a moment later, or when they run again. */
export function hasExpired({ clock }: Pick<ServiceParts, "clock">, checkpoint: Checkpoint): boolean {
  const expiry = expiryOf(checkpoint);
  return expiry !== undefined && expiry <= clock.now();
}

/** Whether nobody has deleted the object. It may exist until what depends on it is gone. */
function isKept({ metadata }: { metadata: { deletionTimestamp?: string | undefined } }): boolean {
  return metadata.deletionTimestamp === undefined;
}

/** Translates `team/name:tag` of other systems: without the own namespace, and with the version of the tag. */
function referenceOf(known: ServiceParts["known"], namespace: string, text: string): string {
  const { name, tag = defaultTag, pin } = parseClientName(text, namespace);
  if (pin !== undefined) return `${name}@${pin}`;
  if (tag === defaultTag) return name;
  const snapshot = known.snapshot(`${namespace}/${name}`);
  const version = snapshot && tagsOf(snapshot)[tag];
  return version === undefined ? `${name}:${tag}` : `${name}@${version}`;
}

/** A set whose sandboxes become the requested clone with the least work. */
export interface WarmSet {
  set: SandboxSet;
  /** The revision of those sandboxes. Others of the set were created from another template. */
  hash: string;
  /** Whether its sandboxes were restored from the checkpoint already, so that a claim is enough. */
  isRestored: boolean;
}

/**
 * The set of the namespace in whose warm sandboxes a checkpoint can be restored in place: best one that was restored from it
 * already. Its template must be equal to the checkpoint's in all fields, since a running Pod keeps its limits, Secrets and sidecars.
 * Only sets with ready sandboxes count.
 */
export function findWarmSet({ known }: ServiceParts, checkpoint: Checkpoint): WarmSet | undefined {
  const kept = keptSpec(checkpoint, known);
  if (kept === undefined || !isCloneable(checkpoint)) return undefined;
  // A running Pod cannot get other volumes.
  const isInPlace = volumeParts(checkpoint.status?.ramet?.parts).length === 0 && !startsWithProbes(checkpoint, kept);
  const found = stockedSets(known, checkpoint.metadata.namespace).flatMap(({ set, hash, spec }): WarmSet[] => {
    const isRestored = restoreFrom({ metadata: {}, spec: {} }, spec.template) === checkpoint.status?.checkpointId;
    if (!isRestored && !isInPlace) return [];
    const own = isRestored ? withTemplateOf(spec, kept) : spec;
    return promisesOf(own) === promisesOf(kept) ? [{ set, hash, isRestored }] : [];
  });
  return found.find(({ isRestored }) => isRestored) ?? found[0];
}

/** Whether a set has a ready sandbox of the same template, in which a checkpoint of the sandbox can be restored in place. */
export function hasWarmSet({ known }: ServiceParts, sandbox: Sandbox): boolean {
  // The checkpoint will contain the volumes, which a running Pod cannot get.
  if (hasVolumes(sandbox)) return false;
  const { metadata, spec } = sandbox;
  const named = spec.templateRef && known.template(`${metadata.namespace}/${spec.templateRef.name}`)?.spec;
  const { template, volumeClaimTemplates, pauseStrategy } = { ...named, ...spec };
  const needed = promisesOf({ ...contentsByDefault(spec, named), template, volumeClaimTemplates, pauseStrategy });
  return stockedSets(known, metadata.namespace).some((set) => promisesOf(set.spec) === needed);
}

/** The current revisions of the sets that have ready sandboxes. A set from which no sandbox can be created has none. */
function stockedSets(known: ServiceParts["known"], namespace: string) {
  const stocked = known.setsIn(namespace).filter(({ status }) => (status?.availableReplicas ?? 0) > 0);
  return stocked.flatMap((set) => resultOr(() => [{ set, ...currentRevision(set, known) }], []));
}

/** The template that the controllers keep with a checkpoint, which has one of two names. */
export function keptSpec(
  { metadata, status }: Checkpoint,
  known: ServiceParts["known"],
): SandboxTemplateSpec | undefined {
  const names = [metadata.name, status?.checkpointId ?? `${metadata.name}-template`];
  const templates = names.map((name) => known.template(`${metadata.namespace}/${name}`));
  return templates.find((each) => each && controllerOf(each)?.uid === metadata.uid)?.spec;
}

/** What a template promises to its sandboxes. */
type Promised = Omit<SandboxTemplateSpec, keyof ContentFields> & ContentFields;

/** The spec of a set's sandboxes that have the template of their checkpoint, as sets without one have. */
function withTemplateOf(spec: SandboxTemplateSpec, kept: SandboxTemplateSpec): Promised {
  if (spec.template?.["spec"] !== undefined) return spec;
  const [stored, own] = [kept, spec].map(({ template }) =>
    PodTemplateSpec.shape.metadata.parse(template?.["metadata"]),
  );
  const labels = { ...stored?.labels, ...own?.labels };
  const annotations = { ...stored?.annotations, ...own?.annotations };
  const template = { ...kept.template, metadata: { ...stored, labels, annotations } };
  return { ...kept, ...spec, ...contentsByDefault(spec, kept), template };
}

/** A digest of all promises; undefined for a template that is not valid. Runtimes are replaced by the guest. */
function promisesOf({ template, runtimes: _, ...others }: Promised): string | undefined {
  const parsed = PodTemplateSpec.safeParse(template).data;
  if (parsed === undefined) return undefined;
  const { metadata, ...rest } = withoutOrigin(parsed);
  const given = Object.entries(others).filter(
    ([, value]) => value !== undefined && !(Array.isArray(value) && value.length === 0),
  );
  return templateRevision({
    ...Object.fromEntries(given),
    template: { ...rest, metadata: { labels: {}, ...metadata } },
  });
}

/**
 * Whether a ready sandbox would not be ready after the restore: without memory its program starts again, and the probes that
 * report when it can be used have succeeded already. A new Pod waits for them.
 */
export function startsWithProbes(checkpoint: Checkpoint, { template }: Pick<SandboxTemplateSpec, "template">): boolean {
  if (checkpoint.status?.ramet?.contents?.includes("memory") ?? true) return false;
  const main = PodTemplateSpec.safeParse(template).data?.spec.containers[0];
  return main?.startupProbe !== undefined || main?.readinessProbe !== undefined;
}
