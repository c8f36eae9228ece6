import { isDeepStrictEqual } from "node:util";
import * as z from "zod";
import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { importGuard } from "../../api/volumes/import-guard.ts";
import { RametError } from "../../base/errors.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import { type KubeObject, ObjectMeta } from "../../kube/object.ts";
import { admissionResources } from "../../kube/resource-ref.ts";

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
