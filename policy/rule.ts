import * as z from "zod";
import { RametError } from "../src/base/errors.ts";

/** A resource of a program, as Pulumi's engine passes it to policies before anything is created. */
export interface PolicyResource {
  /** The type token: `kubernetes:agents.kruise.io/v1alpha1:SandboxSet`. */
  type: string;
  /** The name in the program. */
  name: string;
  /** The inputs. Reading an unknown input in a preview throws, and Pulumi reports that the rule could not run. */
  inputs: Readonly<Record<string, unknown>>;
}

/** A rule for resources: a pure function with settings, independent of Pulumi. */
export interface Rule<Name extends string = string> {
  name: Name;
  description: string;
  /** How to fix a violation. */
  remedy: string;
  settings: z.ZodObject;
  /**
   * Returns the violations of a resource, one sentence each. Empty for resources that the rule does not cover.
   * @throws RametError `InvalidArgument` if the settings are invalid
   */
  validate: (resource: PolicyResource, settings: unknown, now: Date) => string[];
}

interface RuleParts<Name extends string, Shape extends z.ZodRawShape> extends Pick<
  Rule<Name>,
  "name" | "description" | "remedy"
> {
  settings: Shape;
  validate: (resource: PolicyResource, settings: z.output<z.ZodObject<Shape>>, now: Date) => string[];
}

/** Defines a rule and adds the setting `exempt`, which every rule has. */
export function defineRule<Name extends string, Shape extends z.ZodRawShape>(
  parts: RuleParts<Name, Shape>,
): Rule<Name> {
  const { settings: own, validate, ...description } = parts;
  const settings = z.strictObject({ ...own, exempt: Exempt });
  return {
    ...description,
    settings,
    validate: (resource, given, now) => {
      const parsed = settings.safeParse(given);
      if (!parsed.success) {
        const why = `Invalid settings of ${description.name}: ${z.prettifyError(parsed.error)}`;
        throw new RametError("InvalidArgument", why);
      }
      // zod loses the types of a generic shape.
      const known = parsed.data as z.output<z.ZodObject<Shape>> & { exempt: string[] };
      return known.exempt.includes(resource.name) ? [] : reportUnreadable(() => validate(resource, known, now));
    },
  };
}

/** Reports inputs that the rule cannot read instead of failing: a rule receives resources of every provider. */
function reportUnreadable(validate: () => string[]): string[] {
  try {
    return validate();
  } catch (error) {
    if (error instanceof z.ZodError) return [`its inputs cannot be validated: ${z.prettifyError(error)}`];
    if (error instanceof SyntaxError || error instanceof RametError)
      return [`its inputs cannot be validated: ${error.message}`];
    throw error;
  }
}

const Exempt = z.array(z.string()).default([]).describe("Names of resources in the program that the rule skips.");

type Fields = Readonly<Record<string, unknown>>;

/** The spec if the resource declares an object of the kind with Pulumi's Kubernetes provider, else undefined. */
export function specOf({ type, inputs }: PolicyResource, group: string, kind: string): Fields | undefined {
  if (!type.startsWith("kubernetes:") || inputs["kind"] !== kind) return undefined;
  const { apiVersion, spec } = z.object({ apiVersion: z.string(), spec: AnyFields.default({}) }).parse(inputs);
  return apiVersion.startsWith(`${group}/`) ? spec : undefined;
}

/** The inputs if it is a resource of this class, of a dynamic provider or of the provider process, else undefined. */
export function inputsOfClass({ type, inputs }: PolicyResource, className: string): Fields | undefined {
  const types = [`pulumi-nodejs:dynamic/ramet:${className}`, `ramet:index:${className}`];
  return types.includes(type) ? inputs : undefined;
}

/** The spec of a named snapshot, whether declared as a resource or as a manifest. */
export function namedSnapshotOf(resource: PolicyResource): Fields | undefined {
  return inputsOfClass(resource, "NamedSnapshot") ?? specOf(resource, "ramet.dev", "NamedSnapshot");
}

export const kruise = "agents.kruise.io";

/** Passes objects through: reading each field would throw if one is unknown. */
const AnyFields = z.custom<Fields>((value) => typeof value === "object" && value !== null && !Array.isArray(value));
