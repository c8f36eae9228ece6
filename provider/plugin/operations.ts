import { readFileSync } from "node:fs";
import { join } from "node:path";
import { defined } from "../../src/base/defined.ts";
import { RametError } from "../../src/base/errors.ts";
import { clusterIdentity, inKnownCluster } from "../handlers/cluster-identity.ts";
import { InitFailed } from "../handlers/follow.ts";
import {
  type CheckResult,
  changedProperties,
  type DiffResult,
  type ResourceHandler,
  type StackConfiguration,
  type Values,
} from "../handlers/handler.ts";
import { holdingProperties } from "../handlers/named-snapshot/inputs.ts";
import { defaultNamespace, withCluster } from "../handlers/open-cluster.ts";
import { hasUnknown, unknownValue } from "../handlers/validate.ts";
import { constructComponent, type ConstructRequest, type PackageSchema } from "./components.ts";
import { detailedDiff } from "./detailed-diff.ts";
import { importedInputs, ownerOfUrn, type ResourceType, resourceTypeOf } from "./resources.ts";
import { type Received, topOf } from "./values.ts";

export interface ResourceRequest {
  urn: string;
  /** The time limit of the program's `customTimeouts`. 0 for none. */
  timeoutSeconds?: number;
  preview?: boolean;
}

export interface ResourceDiff extends DiffResult {
  details: ReturnType<typeof detailedDiff>;
}

const schemaPath = join(import.meta.dirname, "../../plugin/schema.json");
/** The text of the package's schema. */
export const readSchema = (): string => readFileSync(schemaPath, "utf8");

/** The settings of a provider, besides those of the environment. */
export const providerSettings = [
  "kubeconfig",
  "context",
  "cluster",
  "namespace",
  "organization",
  "forgetCluster",
] as const;

/** The operations of Pulumi's engine with plain values: they translate between the schema and the handlers. */
export class ProviderOperations {
  readonly #log: (line: string, urn: string) => void;
  readonly #canceled = new AbortController();
  readonly #schema = JSON.parse(readSchema()) as PackageSchema;
  #settings: Values = {};
  #identity = clusterIdentity(this.#environment);

  constructor(log: (line: string, urn: string) => void) {
    this.#log = log;
  }

  configure(settings: Values): void {
    this.#settings = settings;
    this.#identity = clusterIdentity(this.#environment);
  }

  /** Ends waits. What they wait for continues in the cluster. */
  cancel(): void {
    this.#canceled.abort();
  }

  /** The problems of a provider's settings. */
  checkSettings(settings: Values): CheckResult["failures"] {
    return Object.entries(settings).flatMap(([property, value]) => {
      const isKnown = providerSettings.some((one) => one === property);
      if (!isKnown && property !== "version")
        return [{ property, reason: `is not one of ${providerSettings.join(", ")}` }];
      return typeof value === "string" ? [] : [{ property, reason: "must be a string" }];
    });
  }

  async check({ urn }: ResourceRequest, olds: Values, { values, secrets }: Received): Promise<CheckResult> {
    const { token, type, name } = resourceTypeOf(urn);
    const known = this.#inputsOf(token);
    const failures = Object.keys(values)
      .filter((property) => !known.includes(property))
      .map((property) => ({ property, reason: `is not a property of ${token}` }));
    if (failures.length > 0 || !this.#isConfigured) return { inputs: values, failures };
    const news = { ...type.defaults, name, namespace: values["namespace"] ?? (await this.#namespace()), ...values };
    const recipeHoldsSecrets = secrets.some(isVisibleSecret);
    const result = await this.#derive(urn, olds, { ...news, ...(recipeHoldsSecrets && { recipeHoldsSecrets }) });
    if (result.failures.length > 0) return { inputs: values, failures: result.failures };
    return { inputs: this.#public(token, type.toSchema(result.inputs)), failures: [] };
  }

  /** @param engine its address */
  construct(request: ConstructRequest, engine: string): ReturnType<typeof constructComponent> {
    return constructComponent(request, { engine, schema: this.#schema, settings: this.#settings });
  }

  /** Undefined if a preview does not know it. */
  async diff({ urn }: ResourceRequest, id: string, olds: Values, news: Values): Promise<ResourceDiff | undefined> {
    if (!this.#isConfigured) return undefined;
    const { token, type } = resourceTypeOf(urn);
    const before = type.toHandler(olds);
    const { inputs } = await this.#derive(urn, olds, news);
    const result = await this.#handler(urn).diff(id, before, inputs);
    if (!result.changes) return { ...result, details: [] };
    const replaces = result.replaces.map((property) => (property === "templateName" ? "template" : property));
    const shown = this.#public(token, type.toSchema(before));
    const requested = this.#public(token, type.toSchema(inputs));
    if (inputs["portsFollow"] === true) Object.assign(requested, defined({ ports: shown["ports"] }));
    const details = detailedDiff(shown, requested);
    // The cluster of the state, and what the digest depends on, are not inputs.
    const others = details.length + replaces.length === 0 ? ["digest"] : replaces;
    for (const property of others) {
      if (!details.some(([path]) => topOf(path) === property)) details.push([property, "update"]);
    }
    return { ...result, replaces, details };
  }

  async create(request: ResourceRequest, news: Values): Promise<{ id: string; outs: Values }> {
    const { urn, preview = false } = request;
    const { token, type } = resourceTypeOf(urn);
    if (!this.#isConfigured && preview) return { id: "", outs: { ...this.#unknownOutputs(token), ...news } };
    const inputs = await this.#validInputs(request, {}, news);
    if (preview) {
      const known = defined(type.toSchema(inputs));
      return { id: "", outs: { ...this.#unknownOutputs(token), ...known } };
    }
    const { id, outs } = await schemaErrors(type, this.#handler(urn).create(inputs));
    return { id, outs: type.toSchema(outs) };
  }

  async update(request: ResourceRequest, id: string, olds: Values, news: Values): Promise<Values> {
    const { urn, preview = false } = request;
    const { token, type } = resourceTypeOf(urn);
    if (!this.#isConfigured && preview) return { ...this.#unknownOutputs(token), ...news };
    const inputs = await this.#validInputs(request, olds, news);
    if (!preview) {
      const { outs } = await schemaErrors(type, this.#handler(urn).update(id, type.toHandler(olds), inputs));
      return type.toSchema(outs);
    }
    const publicInputs = this.#inputsOf(token);
    const kept = Object.entries(olds).filter(([property]) => !publicInputs.includes(property));
    const built = isBuilt(type, type.toHandler(olds), inputs) ? type.built.outputs : [];
    const unknown = Object.fromEntries(built.map((property) => [property, unknownValue]));
    return { ...Object.fromEntries(kept), ...unknown, ...defined(type.toSchema(inputs)) };
  }

  /** Undefined if the object does not exist. @param state empty for an import */
  async read(
    { urn }: ResourceRequest,
    id: string,
    state: Values,
  ): Promise<{ id: string; outs: Values; inputs?: Values } | undefined> {
    const found = resourceTypeOf(urn);
    const { token, type } = found;
    const isImport = Object.keys(state).length === 0;
    const props = isImport ? await this.#imported(found, urn, id) : type.toHandler(state);
    if (props === undefined) return undefined;
    const read = await this.#handler(urn).read(id, props);
    if (read.id === "") return undefined;
    const outs = type.toSchema(read.props);
    return { id: read.id, outs, ...(isImport && { inputs: this.#public(token, outs) }) };
  }

  async delete({ urn }: ResourceRequest, id: string, state: Values): Promise<void> {
    const { type } = resourceTypeOf(urn);
    await this.#handler(urn).delete(id, type.toHandler(state));
  }

  /** The state of an object before its first update, with the defaults that a program's inputs get. */
  async #imported(found: ReturnType<typeof resourceTypeOf>, urn: string, id: string): Promise<Values | undefined> {
    const at = { id, owner: this.#ownerOf(urn) };
    const inputs = await withCluster(this.#environment, (client) => importedInputs(client, found, at));
    return inputs && (await this.#handler(urn).check({}, inputs)).inputs;
  }

  /** False while a preview does not know the settings, such as the kubeconfig of a cluster that the same program creates. */
  get #isConfigured(): boolean {
    return !hasUnknown(this.#settings);
  }

  get #environment(): { configuration: StackConfiguration; environment: NodeJS.ProcessEnv } {
    const get = (key: string): string | undefined => {
      const value = this.#settings[key.replace(/^(kubernetes|ramet):/, "")];
      return typeof value === "string" ? value : undefined;
    };
    return { configuration: { get }, environment: process.env };
  }

  #handler(urn: string): ResourceHandler {
    const log = (line: string): void => {
      this.#log(line, urn);
    };
    const context = { ...this.#environment, log, signal: this.#canceled.signal };
    if (!this.#isConfigured) throw new RametError("Unavailable", "The provider's settings are not known yet");
    return inKnownCluster(resourceTypeOf(urn).type.handler(context), context, this.#identity);
  }

  #ownerOf(urn: string): string {
    return ownerOfUrn(urn, this.#environment.configuration.get("ramet:organization"));
  }

  /** A preview works without a kubeconfig. */
  #namespace(): Promise<string> {
    return defaultNamespace(this.#environment).catch(() => "default");
  }

  /** Adds what the handler derives from the inputs of the schema. */
  #derive(urn: string, olds: Values, news: Values): Promise<CheckResult> {
    const { type } = resourceTypeOf(urn);
    const inputs = { ...type.noted?.(news), ...type.toHandler(news), owner: this.#ownerOf(urn) };
    return this.#handler(urn).check(type.toHandler(olds), inputs);
  }

  async #validInputs({ urn, timeoutSeconds = 0 }: ResourceRequest, olds: Values, news: Values): Promise<Values> {
    const limit = timeoutSeconds > 0 ? { timeout: `${timeoutSeconds} seconds` } : {};
    const { inputs, failures } = await this.#derive(urn, olds, { ...news, ...limit });
    const [failure] = failures;
    if (failure === undefined) return inputs;
    throw new RametError("InvalidArgument", `${failure.property} ${failure.reason}`);
  }

  #inputsOf(token: string): string[] {
    return Object.keys(this.#schema.resources[token]?.inputProperties ?? {});
  }

  /** The properties that a program can set. */
  #public(token: string, values: Values): Values {
    return Object.fromEntries(
      this.#inputsOf(token).flatMap((property) =>
        values[property] === undefined ? [] : [[property, values[property]]],
      ),
    );
  }

  #unknownOutputs(token: string): Values {
    const names = Object.keys(this.#schema.resources[token]?.properties ?? {});
    return Object.fromEntries(names.map((name) => [name, unknownValue]));
  }
}

/** Whether an update builds another version. Only the digest says so, or what it depends on if the program cannot compute it. */
function isBuilt({ built }: ResourceType, before: Values, { digest, ...inputs }: Values): boolean {
  const mutable = [...(digest === undefined ? built.inputs : ["digest"]), ...holdingProperties];
  return changedProperties({ immutable: [], mutable }, before, { digest, ...inputs }).length > 0;
}

/** Of a recipe, only the secret files are kept apart. */
function isVisibleSecret(path: string): boolean {
  return topOf(path) === "recipe" && !/^recipe\[\d+\]\.copy\.secret$/.test(path);
}

/** The state in the error of an object that exists but is not ready, with the properties of the schema. */
function schemaErrors<T>(type: ResourceType, work: Promise<T>): Promise<T> {
  return work.catch((error: unknown) => {
    if (!(error instanceof InitFailed)) throw error;
    const { id, properties, cause } = error;
    throw new InitFailed(id, type.toSchema(properties), RametError.from(cause));
  });
}
