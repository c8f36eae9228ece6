import { isDeepStrictEqual } from "node:util";
import * as z from "zod";
import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { SandboxTemplateSpec } from "../../api/kinds/sandbox-template.ts";
import { type VolumeImport, importGuard } from "../../api/kinds/volume-import.ts";
import { labels } from "../../api/names/labels.ts";
import { withoutOrigin } from "../../api/pod/restore-spec.ts";
import { parsePodTemplate } from "../../api/schema/pod-template.ts";
import { recordOf } from "../../backends/checkpoint-parts.ts";
import type { CheckpointRecord } from "../../backends/checkpoint-record.ts";
import { RametError } from "../../base/errors.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import { type KubeObject, ObjectMeta, keyOf } from "../../kube/object.ts";
import { admissionResources } from "../../kube/resource-ref.ts";
import { begin, keepTemplate } from "./capture.ts";
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

/** Every API server of a cluster applies a policy some moments after it was created. */
const settlesMilliseconds = 5_000;

/**
 * Verifies that an admission policy has decided whether the user may import: that it and its binding are those of this release, and
 * were already when the Checkpoint was created.
 * @throws RametError `ImportNotGuarded`
 */
export async function assertGuarded(client: KubeClient, { metadata }: Checkpoint): Promise<void> {
  const at = { name: importGuard.name };
  const [policy, binding] = await Promise.all([
    client.resource(admissionResources.policies, (value) => Policy.parse(value)).find(at),
    client.resource(admissionResources.bindings, (value) => Binding.parse(value)).find(at),
  ]);
  if (policy === undefined || binding === undefined) throw notGuarded("does not exist, or has no binding");
  if (!isOurs(policy) || !isBinding(binding)) throw notGuarded("or its binding is not the one of this release");
  const since = Math.max(...[policy, binding].flatMap(changedAt));
  // Without a time, the comparison is false.
  if (!(Date.parse(metadata.creationTimestamp) >= since + settlesMilliseconds))
    throw notGuarded("was created or changed when the Checkpoint existed already, or seconds before");
}

/** The API server adds defaults, which select everything. A selector or an exclusion of somebody else makes it another policy. */
function isOurs({ metadata, spec }: z.infer<typeof Policy>): boolean {
  const { failurePolicy, paramKind, matchConstraints, matchConditions, validations, variables } = spec;
  const [rule, ...others] = matchConstraints.resourceRules;
  const { apiGroup, operations, resources, conditions, validations: own } = importGuard;
  return (
    metadata.deletionTimestamp === undefined &&
    failurePolicy === "Fail" &&
    paramKind === undefined &&
    variables.length === 0 &&
    others.length === 0 &&
    selectsAll(matchConstraints) &&
    isDeepStrictEqual(rule, { apiGroups: [apiGroup], apiVersions: ["*"], operations, resources, scope: "*" }) &&
    isDeepStrictEqual(matchConditions, conditions) &&
    isDeepStrictEqual(
      validations.map(({ expression }) => expression),
      own.map(({ expression }) => expression),
    )
  );
}

function isBinding({ metadata, spec }: z.infer<typeof Binding>): boolean {
  const { policyName, validationActions, paramRef, matchResources } = spec;
  const isWhole =
    matchResources === undefined || (selectsAll(matchResources) && matchResources.resourceRules.length === 0);
  return (
    metadata.deletionTimestamp === undefined &&
    policyName === importGuard.name &&
    validationActions.includes("Deny") &&
    paramRef === undefined &&
    isWhole
  );
}

function selectsAll({ namespaceSelector, objectSelector, excludeResourceRules }: z.infer<typeof Matching>): boolean {
  const isEmpty = (selector: object) => Object.keys(selector).length === 0;
  return isEmpty(namespaceSelector) && isEmpty(objectSelector) && excludeResourceRules.length === 0;
}

/** When it was created, and when its spec was changed: the API server records that for each writer. */
function changedAt({ metadata }: KubeObject): number[] {
  const writes = Writes.parse(metadata["managedFields"] ?? []).filter(({ subresource }) => subresource === undefined);
  return [metadata.creationTimestamp, ...writes.map(({ time }) => time)].map((time) => Date.parse(time ?? ""));
}

const Writes = z.array(z.looseObject({ subresource: z.string().optional(), time: z.string().optional() }));

function notGuarded(why: string): RametError {
  return new RametError(
    "ImportNotGuarded",
    `No volumes are imported: the admission policy ${importGuard.name} ${why}`,
    { hint: "Apply the manifests of this release, then create another Checkpoint" },
  );
}

const Matching = z.object({
  namespaceSelector: z.record(z.string(), z.unknown()).default({}),
  objectSelector: z.record(z.string(), z.unknown()).default({}),
  excludeResourceRules: z.array(z.unknown()).default([]),
  resourceRules: z.array(z.unknown()).default([]),
});

const Policy = z.object({
  metadata: ObjectMeta,
  spec: z.object({
    failurePolicy: z.string().optional(),
    paramKind: z.unknown().optional(),
    matchConstraints: Matching,
    matchConditions: z.array(z.unknown()).default([]),
    variables: z.array(z.unknown()).default([]),
    validations: z.array(z.looseObject({ expression: z.string() })),
  }),
});

const Binding = z.object({
  metadata: ObjectMeta,
  spec: z.object({
    policyName: z.string(),
    validationActions: z.array(z.string()),
    paramRef: z.unknown().optional(),
    matchResources: Matching.optional(),
  }),
});
