import type { EnforcementLevel, PolicyConfigSchema, ResourceValidationPolicy } from "@pulumi/policy";
import * as z from "zod";
import { defined } from "../src/base/defined.ts";
import type { Rule } from "./rule.ts";
import { boundedLifetimes, boundedReplicas, retention } from "./rules/bounded-lifetimes.ts";
import { pinnedImages } from "./rules/pinned-images.ts";
import { privateStore } from "./rules/private-store.ts";
import { recipeSecrets } from "./rules/recipe-secrets.ts";

export interface GuardrailOptions {
  /** The effect of a violation. A stack's policy configuration can override it for each rule. @default "mandatory" */
  enforcementLevel?: EnforcementLevel;
  /**
   * Settings by the rule's name: `{ "ramet-bounded-replicas": { maxReplicas: 20 } }`.
   * @default the defaults of each rule
   */
  settings?: Partial<Record<RuleName, Readonly<Record<string, unknown>>>>;
}

/**
 * Returns Ramet's policies for a policy pack:
 * `new PolicyPack("platform", { policies: [...guardrails(), ...others] })`.
 */
export function guardrails({
  enforcementLevel = "mandatory",
  settings = {},
}: GuardrailOptions = {}): ResourceValidationPolicy[] {
  return rules.map((rule) => policyOf(rule, enforcementLevel, settings[rule.name] ?? {}));
}

function policyOf(
  rule: Rule,
  enforcementLevel: EnforcementLevel,
  given: Readonly<Record<string, unknown>>,
): ResourceValidationPolicy {
  return {
    name: rule.name,
    description: rule.description,
    enforcementLevel,
    remediationSteps: rule.remedy,
    configSchema: configSchemaOf(rule, given),
    validateResource: (args, reportViolation) => {
      const { type, name, props: inputs } = args;
      const settings = { ...given, ...args.getConfig<Record<string, unknown>>() };
      for (const what of rule.validate({ type, name, inputs }, settings, new Date())) {
        reportViolation(`${what}. ${rule.remedy}`);
      }
    },
  };
}

/** The Pulumi CLI applies the schema's defaults, so these are the settings of the pack. */
function configSchemaOf({ settings }: Rule, given: Readonly<Record<string, unknown>>): PolicyConfigSchema {
  const { properties = {} } = z.toJSONSchema(settings, { io: "input" });
  return {
    properties: Object.fromEntries(
      Object.entries(properties).map(([key, schema]) => [
        key,
        { ...(schema as object), ...defined({ default: given[key] }) } as PolicyConfigSchema["properties"][string],
      ]),
    ),
  };
}

/** All rules. */
export const rules = [
  retention,
  privateStore,
  pinnedImages,
  recipeSecrets,
  boundedReplicas,
  boundedLifetimes,
] as const satisfies readonly Rule[];

type RuleName = (typeof rules)[number]["name"];
