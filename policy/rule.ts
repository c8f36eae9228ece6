import * as z from "zod";
import { RametError } from "../src/base/errors.ts";

/** A resource that a program declares, as Pulumi's engine shows it to policies before anything is made. */
export interface PolicyResource {
  /** Its type token: `kubernetes:agents.kruise.io/v1alpha1:SandboxSet`. */
  type: string;
  /** Its name in the program. */
  name: string;
  /** Its inputs. One that is not known in a preview throws when it is read, and Pulumi then says that the rule could not run. */
  inputs: Readonly<Record<string, unknown>>;
}

/** What is asked of resources: a pure function with settings, which knows nothing of Pulumi. */
export interface Rule<Name extends string = string> {
  name: Name;
  description: string;
  /** What to do about a violation. */
  remedy: string;
  settings: z.ZodObject;
  /**
   * What is wrong with a resource, each in a sentence; nothing for resources that the rule is not about.
   * @throws RametError `InvalidArgument` when the settings are not legal
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

/** A rule, with the setting that every rule has. */
export function defineRule<Name extends string, Shape extends z.ZodRawShape>(
  parts: RuleParts<Name, Shape>,
): Rule<Name> {
  const { settings: own, validate, ...violations } = parts;
  const settings = z.strictObject({ ...own, exempt: Exempt });
  return {
    ...violations,
    settings,
    validate: (resource, given, now) => {
      const parsed = settings.safeParse(given);
      if (!parsed.success) {
        const why = `The settings of ${violations.name} are not legal: ${z.prettifyError(parsed.error)}`;
        throw new RametError("InvalidArgument", why);
      }
      // zod keeps the shape's types only where it knows the shape.
      const known = parsed.data as z.output<z.ZodObject<Shape>> & { exempt: string[] };
      return known.exempt.includes(resource.name) ? [] : legible(() => validate(resource, known, now));
    },
  };
}

/** What the rule cannot read is told, and no reason to break off: the rule sees resources of every provider. */
function legible(validate: () => string[]): string[] {
  try {
    return validate();
  } catch (error) {
    if (error instanceof z.ZodError) return [`it cannot be judged: ${z.prettifyError(error)}`];
    if (error instanceof SyntaxError || error instanceof RametError) return [`it cannot be judged: ${error.message}`];
    throw error;
  }
}

const Exempt = z
  .array(z.string())
  .default([])
  .describe("Names of resources, as the program calls them, that the rule leaves alone.");

type Fields = Readonly<Record<string, unknown>>;

/** The spec of an object of a kind, when the resource declares one with Pulumi's Kubernetes provider; else undefined. */
export function specOf({ type, inputs }: PolicyResource, group: string, kind: string): Fields | undefined {
  if (!type.startsWith("kubernetes:") || inputs["kind"] !== kind) return undefined;
  const { apiVersion, spec } = z.object({ apiVersion: z.string(), spec: AnyFields.default({}) }).parse(inputs);
  return apiVersion.startsWith(`${group}/`) ? spec : undefined;
}

/** The same of one of Ramet's dynamic resources: its inputs. */
export function dynamicInputsOf({ type, inputs }: PolicyResource, className: string): Fields | undefined {
  return type === `pulumi-nodejs:dynamic/ramet:${className}` ? inputs : undefined;
}

/** What a named snapshot is to be, whichever way the program declares it. */
export function namedSnapshotOf(resource: PolicyResource): Fields | undefined {
  return dynamicInputsOf(resource, "NamedSnapshot") ?? specOf(resource, "ramet.dev", "NamedSnapshot");
}

export const kruise = "agents.kruise.io";

/** Passes objects on as they are: to look at each field would throw where one is not known yet. */
const AnyFields = z.custom<Fields>((value) => typeof value === "object" && value !== null && !Array.isArray(value));
