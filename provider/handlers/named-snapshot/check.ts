import { NamedSnapshotManifest, NamedSnapshotSpec } from "../../../src/api/kinds/named-snapshot.ts";
import { RametError } from "../../../src/base/errors.ts";
import type { CheckResult, Values } from "../handler.ts";
import { parseTimeSpan } from "../time-span.ts";
import { hasUnknown, validate, unknownValue } from "../validate.ts";
import { digestOfInputs } from "./digest.ts";
import { manifestOf } from "./inputs.ts";
import { newDigestKey } from "./recipe-secret.ts";

/**
 * Judges a named snapshot as the API server would, and adds its digest, so that a preview shows whether it is built.
 * @param keptKey the key of the digest, where the state has none and it is kept elsewhere
 */
export function checkNamedSnapshot(olds: Values, news: Values, keptKey?: string): CheckResult {
  const inputs = withDigestKey(
    { ...olds, ...(keptKey !== undefined && { digestKey: keptKey }) },
    { ...specDefaults, ...withoutNulls(news) },
  );
  const failures = [...validateManifest(inputs), ...validateSecrets(inputs), ...validateTimeout(inputs)];
  if (failures.length > 0) return { inputs, failures };
  const digest = digestOfInputs(inputs)?.digest ?? (isOpen(inputs) ? unknownValue : undefined);
  return { inputs: { ...inputs, ports: portsOf(inputs), ...(digest !== undefined && { digest }) }, failures };
}

/** What the API server would fill in stands in the state, so that what it has is equal to what is wished. */
const specDefaults = {
  contents: NamedSnapshotSpec.shape.contents.parse(undefined),
  keepVersions: NamedSnapshotSpec.shape.keepVersions.parse(undefined),
  deletionPolicy: NamedSnapshotSpec.shape.deletionPolicy.parse(undefined),
  stepCache: NamedSnapshotSpec.shape.stepCache.parse(undefined),
};

function validateManifest(inputs: Values): CheckResult["failures"] {
  return validate(NamedSnapshotManifest, { ...manifestOf(inputs) }).map(({ property, reason }) => ({
    // What is said of the whole object is said of its name.
    property: property === "" ? "name" : property.replace(/^(spec|metadata)\./, ""),
    reason,
  }));
}

function validateSecrets({ recipeHoldsSecrets }: Values): CheckResult["failures"] {
  if (recipeHoldsSecrets !== true) return [];
  const reason = `a secret stands in it, where whoever may read the NamedSnapshot could read it; give it to a step as a file: copy({ path, secret })`;
  return [{ property: "recipe", reason }];
}

function validateTimeout({ timeout }: Values): CheckResult["failures"] {
  if (typeof timeout !== "string" || timeout === unknownValue) return [];
  try {
    parseTimeSpan(timeout, "it");
    return [];
  } catch (error) {
    return [{ property: "timeout", reason: RametError.from(error).describe() }];
  }
}

/** Made once, and kept in the state for good: with another key, the digest would be another. */
function withDigestKey(olds: Values, news: Values): Values {
  if (news["secrets"] === undefined) return news;
  const known = olds["digestKey"];
  return { ...news, digestKey: typeof known === "string" && known !== "" ? known : newDigestKey() };
}

function isOpen({ source, recipe, secrets, contents }: Values): boolean {
  return hasUnknown([source, recipe, secrets, contents]);
}

/** The ports that the recipe waits for: there something answers in every clone. */
function portsOf({ recipe }: Values): number[] {
  const steps = Array.isArray(recipe) ? (recipe as { waitFor?: { port?: unknown } }[]) : [];
  const ports = steps.map((step) => step.waitFor?.port).filter((port) => typeof port === "number");
  return [...new Set(ports)];
}

function withoutNulls(values: Values): Values {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== null && value !== undefined));
}
