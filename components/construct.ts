import {
  type Alias,
  type ComponentResource,
  type ComponentResourceOptions,
  DependencyProviderResource,
  DependencyResource,
  type Inputs,
  isUnknown,
  output,
  isSecret,
  Output,
  rootStackResource,
  runtime,
} from "@pulumi/pulumi";
import type alias from "@pulumi/pulumi/proto/alias_pb.js";
import * as pulumiServer from "@pulumi/pulumi/provider/server.js";
import * as pulumiResource from "@pulumi/pulumi/runtime/resource.js";
import * as pulumiSettings from "@pulumi/pulumi/runtime/settings.js";
import * as pulumiState from "@pulumi/pulumi/runtime/state.js";
import type {
  Constructed,
  ConstructContext,
  ConstructModule,
  ConstructRequest,
  PackageSchema,
  PropertySchema,
} from "../provider/plugin/components.ts";
import { defined } from "../src/base/defined.ts";
import { RametError } from "../src/base/errors.ts";
import { knownValue } from "./await.ts";
import * as ramet from "./index.ts";
import { errorOf } from "./run-error.ts";

/**
 * Registers a component for a program in another language. It has the class, the inputs and the options that it has in a program in
 * TypeScript, and the settings of the provider in place of those of the stack.
 */
export const construct: ConstructModule["construct"] = async (request, context) => {
  try {
    // Pulumi keeps everything about a program there, so that components of several calls do not meet.
    return await withLocalStorage(() => Promise.race([failureHere(), register(request, context)]));
  } catch (thrown) {
    const { code, message, hint } = errorOf(thrown);
    return { error: { code, message, ...defined({ hint }) } };
  }
};

async function register(request: ConstructRequest, context: ConstructContext): Promise<Constructed> {
  const [type, name] = [request.getType(), request.getName()];
  const { schema } = context;
  const described = Object.hasOwn(schema.resources, type) ? schema.resources[type] : undefined;
  const Component = described?.isComponent === true ? components[type.replace("ramet:index:", "")] : undefined;
  if (described === undefined || Component === undefined) {
    throw new RametError("NotSupported", `This provider has no component ${type}`);
  }
  await openProgram(request, context);
  const inputs = await deserializeInputs(request.getInputs(), request.getInputdependenciesMap());
  requireArguments(type, inputs, described);
  const args = await plainly(inputs, described.inputProperties, { schema, path: `${name}: ` });
  const component = new Component(name, args, optionsOf(request));
  const outputs = Object.keys(described.properties).map((key): [string, unknown] => [key, component[key]]);
  const [state, resources] = await runtime.serializeResourceProperties(name, Object.fromEntries(outputs));
  const urn = await knownValue(component.urn);
  const urns = [...resources].map(async ([key, found]): Promise<[string, string[]]> => {
    const known = await Promise.all([...found].map((one) => knownValue(one.urn)));
    return [key, known.filter((one) => one !== undefined)];
  });
  const dependencies = Object.fromEntries(await Promise.all(urns));
  await waitForRPCs();
  runtime.disconnectSync();
  return { urn: urn ?? "", state, dependencies };
}

const components = ramet as unknown as Record<string, ComponentClass | undefined>;

type ComponentClass = new (name: string, args: unknown, opts: ComponentResourceOptions) => ComponentResource & Inputs;

/** Functions with which Pulumi's own server registers components. That server is no class of its API, and its types omit them. */
const { deserializeInputs } = pulumiServer as unknown as {
  deserializeInputs: (inputs: unknown, dependencies: unknown) => Promise<Inputs>;
};
const { hookBindingFromProto } = pulumiResource as unknown as {
  hookBindingFromProto: (hooks: unknown) => ComponentResourceOptions["hooks"];
};
const { awaitFeatureSupport, waitForRPCs } = pulumiSettings as unknown as Record<
  "awaitFeatureSupport" | "waitForRPCs",
  () => Promise<void>
>;
const { withLocalStorage } = pulumiState as unknown as {
  withLocalStorage: <T>(run: () => Promise<T>) => Promise<T>;
};

async function openProgram(request: ConstructRequest, { engine, settings }: ConstructContext): Promise<void> {
  runtime.resetOptions(
    request.getProject(),
    request.getStack(),
    request.getParallel(),
    engine,
    request.getMonitorendpoint(),
    request.getDryrun(),
    request.getOrganization(),
  );
  await awaitFeatureSupport();
  runtime.setAllConfig(configurationFor(request.getConfigMap().entries(), settings), request.getConfigsecretkeysList());
}

/**
 * The stack's configuration with the settings of the provider. A provider that names a cluster has nothing from the stack's: a context
 * of the stack, or a namespace of its cluster, may not exist in the provider's.
 */
export function configurationFor(
  stack: Iterable<[string, string]>,
  settings: ConstructContext["settings"],
): Record<string, string> {
  const isSet = (key: string): boolean => typeof settings[key] === "string";
  const names = [...selecting, "namespace"];
  const replaced = selecting.some(isSet) ? names.map((key) => `kubernetes:${key}`) : [];
  return Object.fromEntries([
    ...[...stack].filter(([key]) => !replaced.includes(key)),
    ...names.filter(isSet).map((key) => [`kubernetes:${key}`, String(settings[key])]),
    ["ramet:hosted", "true"],
  ]) as Record<string, string>;
}

/** The settings that select a cluster. */
const selecting = ["kubeconfig", "context", "cluster"];

/**
 * Fails with an error of an output of this call. Pulumi reports it to the process, as it ends a program. Later errors of a call that
 * has failed say the same again.
 */
function failureHere(): Promise<never> {
  if (process.listenerCount("unhandledRejection", onRejection) === 0) process.on("unhandledRejection", onRejection);
  const call = globalThis.asyncLocalStorage.getStore() as Call;
  const { promise, reject } = Promise.withResolvers<never>();
  call[rejectCall] = reject;
  return promise;
}

/** Pulumi's storage tells which call an error belongs to. @throws the error if it belongs to none, which ends the process */
function onRejection(error: unknown): void {
  const call = globalThis.asyncLocalStorage.getStore() as Partial<Call> | undefined;
  if (call?.[rejectCall] === undefined) throw error;
  call[rejectCall](error);
}

const rejectCall = Symbol("rejectCall");
interface Call {
  [rejectCall]: (error: unknown) => void;
}

/** @throws RametError naming arguments that are missing or do not exist */
function requireArguments(
  type: string,
  inputs: Inputs,
  { inputProperties, requiredInputs }: PackageSchema["resources"][string],
): void {
  const unknown = Object.keys(inputs).filter((key) => !Object.hasOwn(inputProperties, key));
  const missing = requiredInputs.filter((key) => inputs[key] === undefined);
  const problems = [
    ...unknown.map((key) => `${key} is not an argument of ${type}`),
    ...missing.map((key) => `the argument ${key} of ${type} is missing`),
  ];
  if (problems.length > 0) throw new RametError("InvalidArgument", problems.join(", and "));
}

interface At {
  schema: PackageSchema;
  path: string;
}

function plainly(values: object, properties: Record<string, PropertySchema>, at: At): Promise<Inputs> {
  const found = Object.entries(values).map(async ([key, value]) => {
    const property = properties[key];
    return [key, property && (await plainValue(value, property, { ...at, path: `${at.path}${key}` }))] as const;
  });
  return Promise.all(found).then((entries) => Object.fromEntries(entries));
}

/**
 * The value, where a class takes no output. What depends on other resources arrives as one.
 * @throws RametError if it is not known yet, or a secret
 */
async function plainValue(value: unknown, property: PropertySchema, at: At): Promise<unknown> {
  const { schema, path } = at;
  if (Output.isInstance(value) || isUnknown(value)) return property.plain === true ? decidingValue(value, path) : value;
  if (Array.isArray(value) && property.items !== undefined) {
    const { items } = property;
    return Promise.all(value.map((one, index) => plainValue(one, items, { schema, path: `${path}[${index}]` })));
  }
  const type = schema.types[property.$ref?.replace("#/types/", "") ?? ""];
  if (type === undefined || typeof value !== "object" || value === null) return value;
  return plainly(value, type.properties, { schema, path: `${path}.` });
}

async function decidingValue(value: unknown, path: string): Promise<unknown> {
  const given: Output<unknown> = output<unknown>(value);
  const known = await knownValue(given);
  if (known !== undefined && !(await isSecret(given))) return known;
  const why = known === undefined ? "is not known yet" : "is a secret";
  const hint = "Use a value of the program itself: it decides what is declared. Its parts can be outputs";
  throw new RametError("InvalidArgument", `${path} ${why}`, { hint });
}

/** @throws RametError naming an option that components do not have */
export function optionsOf(request: ConstructRequest): ComponentResourceOptions {
  const refused = Object.entries({
    replaceWith: request.getReplaceWithList().length > 0,
    deleteBeforeReplace: request.getDeletebeforereplace() === true,
    additionalSecretOutputs: request.getAdditionalsecretoutputsList().length > 0,
  }).find(([, isGiven]) => isGiven);
  if (refused !== undefined) {
    throw new RametError("NotSupported", `${request.getName()}: components of Ramet have no option ${refused[0]}`);
  }
  const trigger = request.getReplacementTrigger()?.toJavaScript();
  const parent = request.getParent();
  const deletedWith = request.getDeletedwith();
  const providers = [...request.getProvidersMap().entries()].map(
    ([name, reference]) => [name, new DependencyProviderResource(reference)] as const,
  );
  return {
    aliases: request.getAliasesList().map(aliasOf),
    dependsOn: request.getDependenciesList().map((urn) => new DependencyResource(urn)),
    providers: Object.fromEntries(providers),
    ignoreChanges: request.getIgnorechangesList(),
    replaceOnChanges: request.getReplaceonchangesList(),
    ...defined({
      parent: parent === "" ? undefined : new DependencyResource(parent),
      deletedWith: deletedWith === "" ? undefined : new DependencyResource(deletedWith),
      protect: request.getProtect(),
      retainOnDelete: request.getRetainondelete(),
      customTimeouts: request.getCustomtimeouts()?.toObject(),
      hooks: hookBindingFromProto(request.getResourceHooks()),
      replacementTrigger: trigger === undefined ? undefined : (runtime.deserializeProperty(trigger, true) as unknown),
    }),
  };
}

function aliasOf(found: InstanceType<typeof alias.Alias>): string | Alias {
  const spec = found.getSpec();
  if (spec === undefined) return found.getUrn();
  const given = (text: string): string | undefined => (text === "" ? undefined : text);
  return {
    ...defined({
      name: given(spec.getName()),
      type: given(spec.getType()),
      stack: given(spec.getStack()),
      project: given(spec.getProject()),
      parent: given(spec.getParenturn()),
    }),
    ...(spec.getNoparent() && { parent: rootStackResource }),
  };
}
