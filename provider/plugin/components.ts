import { join } from "node:path";
import provider from "@pulumi/pulumi/proto/provider_pb.js";
import type { ErrorCode } from "../../src/base/error-codes.ts";
import { errnoOf, RametError } from "../../src/base/errors.ts";
import type { Values } from "../handlers/handler.ts";
import { sent } from "./values.ts";

export type ConstructRequest = InstanceType<typeof provider.ConstructRequest>;

export interface ConstructContext {
  /** The address of the engine, which shows messages. */
  engine: string;
  schema: PackageSchema;
  /** The settings of the provider. */
  settings: Values;
}

export interface PackageSchema {
  resources: Record<string, ResourceSchema>;
  types: Record<string, { properties: Record<string, PropertySchema> }>;
}

interface ResourceSchema {
  isComponent?: boolean;
  inputProperties: Record<string, PropertySchema>;
  requiredInputs: string[];
  properties: Record<string, PropertySchema>;
}

export interface PropertySchema {
  $ref?: string;
  items?: PropertySchema;
  additionalProperties?: PropertySchema;
  /** Whether the value decides what is declared, so that it has to be known. */
  plain?: boolean;
}

/** A registered component, or why there is none: the error of another copy of the class. */
export type Constructed =
  | { urn: string; state: Values; dependencies: Record<string, string[]> }
  | { error: { code: ErrorCode; message: string; hint?: string } };

/** `components/construct.ts`. */
export interface ConstructModule {
  construct: (request: ConstructRequest, context: ConstructContext) => Promise<Constructed>;
}

/**
 * Registers a component and its children, as a program in TypeScript does. The components are in a file that is loaded when the first
 * one is declared, because they need Pulumi's SDK and its Kubernetes package.
 * @throws RametError
 */
export async function constructComponent(request: ConstructRequest, context: ConstructContext) {
  const { construct } = await loadComponents();
  const made = await construct(request, context);
  if ("error" in made) throw new RametError(made.error.code, made.error.message, { hint: made.error.hint });
  const response = new provider.ConstructResponse().setUrn(made.urn).setState(sent(made.state, new Set()));
  for (const [property, urns] of Object.entries(made.dependencies)) {
    const dependencies = new provider.ConstructResponse.PropertyDependencies().setUrnsList(urns);
    response.getStatedependenciesMap().set(property, dependencies);
  }
  return response;
}

async function loadComponents(): Promise<ConstructModule> {
  try {
    return (await import(join(import.meta.dirname, "construct.js"))) as ConstructModule;
  } catch (error) {
    if (errnoOf(error) !== "MODULE_NOT_FOUND") throw error;
    throw new RametError("NotFound", "Components need the packages @pulumi/pulumi and @pulumi/kubernetes", {
      hint: "Install both beside the package ramet: npm install @pulumi/pulumi @pulumi/kubernetes",
      cause: error,
    });
  }
}
