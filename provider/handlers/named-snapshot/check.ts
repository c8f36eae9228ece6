import { NamedSnapshotManifest, NamedSnapshotSpec } from "../../../src/api/kinds/named-snapshot.ts";
import { SandboxTemplateSpec } from "../../../src/api/kinds/sandbox-template.ts";
import type { RecipeStep } from "../../../src/api/recipe/recipe.ts";
import {
  snapshotDigest,
  type SnapshotDigest,
  type CopiedContent,
  type ResolvedSource,
  secretIdentity,
} from "../../../src/api/snapshot/snapshot-digest.ts";
import { defined } from "../../../src/base/defined.ts";
import { type CheckResult, givenInputs, type Values } from "../handler.ts";
import { hasUnknown, unknownValue, validate, validateTimeSpan } from "../validate.ts";
import { manifestOf, NamedSnapshotInputs } from "./inputs.ts";
import { contentDigest, newDigestKey, recipeSecretName } from "./recipe-secret.ts";

/**
 * Validates a named snapshot as the API server would and adds its digest, so that a preview shows whether it is rebuilt.
 * @param keptKey the digest key from the recipe's Secret, if the state has none
 */
export function checkNamedSnapshot(olds: Values, news: Values, keptKey?: string): CheckResult {
  const inputs = withDigestKey(
    { ...olds, ...defined({ digestKey: keptKey }) },
    { ...specDefaults, ...givenInputs(news) },
  );
  const failures = [...validateManifest(inputs), ...validateSecrets(inputs), ...validateTimeSpan(inputs, "timeout")];
  if (failures.length > 0) return { inputs, failures };
  const digest = digestOfInputs(inputs)?.digest ?? (isOpen(inputs) ? unknownValue : undefined);
  return { inputs: { ...inputs, ports: portsOf(inputs), ...defined({ digest }) }, failures };
}

/** The API server's defaults, which are also kept in the state so that it compares equal to the object. */
const specDefaults = {
  contents: NamedSnapshotSpec.shape.contents.parse(undefined),
  keepVersions: NamedSnapshotSpec.shape.keepVersions.parse(undefined),
  deletionPolicy: NamedSnapshotSpec.shape.deletionPolicy.parse(undefined),
  stepCache: NamedSnapshotSpec.shape.stepCache.parse(undefined),
};

function validateManifest(inputs: Values): CheckResult["failures"] {
  return validate(NamedSnapshotManifest, { ...manifestOf(inputs) }).map(({ property, reason }) => ({
    // Report an error of the whole object for its name.
    property: property === "" ? "name" : property.replace(/^(spec|metadata)\./, ""),
    reason,
  }));
}

function validateSecrets({ recipeHoldsSecrets }: Values): CheckResult["failures"] {
  if (recipeHoldsSecrets !== true) return [];
  const reason = `contains a secret, which everyone who can read the NamedSnapshot could read; pass it to a step as a file: copy({ path, secret })`;
  return [{ property: "recipe", reason }];
}

/** Created once and then kept in the state, because another key would change the digest. */
function withDigestKey(olds: Values, news: Values): Values {
  if (news["secrets"] === undefined) return news;
  const known = olds["digestKey"];
  return { ...news, digestKey: typeof known === "string" && known !== "" ? known : newDigestKey() };
}

function isOpen({ source, recipe, secrets, contents, volumes, layers }: Values): boolean {
  return hasUnknown([source, recipe, secrets, contents, volumes, layers]);
}

/**
 * The ports that the recipe waits for, then those of the snapshot it is built from. Processes listen on them in every clone.
 * Unknown if the other snapshot's are.
 */
function portsOf({ recipe, inheritedPorts }: Values): number[] | typeof unknownValue {
  if (hasUnknown([inheritedPorts])) return unknownValue;
  const steps = Array.isArray(recipe) ? (recipe as { waitFor?: { port?: unknown } }[]) : [];
  const inherited: unknown[] = Array.isArray(inheritedPorts) ? inheritedPorts : [];
  const ports = [...steps.map((step) => step.waitFor?.port), ...inherited].filter((port) => typeof port === "number");
  return [...new Set(ports)];
}

/** Computes the digest with the controller's function. Returns undefined if only the cluster knows all inputs. */
export function digestOfInputs(values: Values): SnapshotDigest | undefined {
  const { data: inputs } = NamedSnapshotInputs.safeParse(values);
  if (inputs?.source === undefined || hasUnknown([inputs.source, inputs.recipe, inputs.secrets])) return undefined;
  const copied = copiedContents(inputs);
  if (copied === undefined) return undefined;
  const { recipe, contents, volumes, layers } = inputs;
  return snapshotDigest({ from: resolved(inputs.source), recipe, copied, contents, volumes, layers });
}

/** Adds the API server's defaults. */
function resolved(source: NonNullable<NamedSnapshotInputs["source"]>): ResolvedSource {
  return "template" in source ? { template: SandboxTemplateSpec.parse(source.template) } : source;
}

/**
 * The digests of files that steps copy from other objects. Undefined if one of the objects is not declared by this
 * program.
 */
function copiedContents(inputs: NamedSnapshotInputs): Map<number, CopiedContent> | undefined {
  const { recipe, name, secrets, digestKey } = inputs;
  const declared =
    secrets !== undefined && digestKey !== undefined
      ? { digest: contentDigest(secrets, digestKey), secrets }
      : undefined;
  const isOurs = ({ copy }: RecipeStep): boolean =>
    copy?.secretKeyRef?.name === recipeSecretName(name) &&
    Object.hasOwn(declared?.secrets ?? {}, copy.secretKeyRef.key);
  const copied = new Map<number, CopiedContent>();
  for (const [index, step] of recipe.entries()) {
    if (step.copy?.configMapKeyRef === undefined && step.copy?.secretKeyRef === undefined) continue;
    if (declared === undefined || !isOurs(step)) return undefined;
    const annotations = { "ramet.dev/content-digest": declared.digest };
    copied.set(index, { identity: secretIdentity({ annotations, uid: "", resourceVersion: "" }) });
  }
  return copied;
}
