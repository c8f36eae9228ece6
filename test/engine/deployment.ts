import type { CheckedResource } from "./policy-pack-process.ts";
import { InitError, type ResourceProvider } from "./resource-provider.ts";
import type { ResourceState, StateFile } from "./state-file.ts";
import { marked, secretProperties, unmarked, type Values } from "./values.ts";

/** A resource that a program registers. */
export interface ResourceRequest {
  type: string;
  name: string;
  parent: string;
  custom: boolean;
  /** Secrets and unknown values are marked. */
  inputs: Values;
  dependencies: string[];
  /** The URNs that it may have had in earlier runs. */
  aliases: string[];
  additionalSecrets: string[];
  retainOnDelete: boolean;
}

export type Operation = "same" | "create" | "update" | "replace" | "delete-replaced" | "delete" | "retain";

export interface Step {
  operation: Operation;
  urn: string;
  type: string;
  name: string;
  /** The inputs with secrets in clear text. Do not print them. */
  inputs: Values;
  /** Inputs that differ, secrets without their values. */
  changes: { property: string; before: unknown; after: unknown }[];
}

export interface Registered {
  urn: string;
  id: string;
  outputs: Values;
}

export interface DeploymentOptions {
  stack: string;
  project: string;
  state: StateFile;
  /** Whether to report the steps without applying them. */
  preview: boolean;
  /** The provider for a type. Undefined for types without a provider, whose outputs are their inputs. */
  providerOf: (type: string) => ResourceProvider | undefined;
  /** Called before a resource is created or changed. @throws Error if a policy forbids it */
  analyze: (resource: CheckedResource) => Promise<void>;
}

/** One run of a program against a state. Applies each registered resource immediately and deletes all others at the end. */
export class Deployment {
  readonly steps: Step[] = [];
  /** The outputs of the stack. */
  outputs: Values = {};
  readonly #options: DeploymentOptions;
  readonly #registered = new Set<string>();
  readonly #underWay = new Set<Promise<unknown>>();
  #isStopped = false;

  constructor(options: DeploymentOptions) {
    this.#options = options;
  }

  /** Applies a resource, or previews it. Never resolves after `stop`. @throws Error, InitError */
  async register(request: ResourceRequest): Promise<Registered> {
    if (this.#isStopped) return new Promise(() => undefined);
    const work = this.#register(request);
    this.#underWay.add(work);
    try {
      return await work;
    } finally {
      this.#underWay.delete(work);
    }
  }

  /** Prevents further operations from starting. */
  stop(): void {
    this.#isStopped = true;
  }

  /** Resolves when the running operations have ended. */
  async settled(): Promise<void> {
    await Promise.allSettled(this.#underWay);
  }

  async #register(request: ResourceRequest): Promise<Registered> {
    const urn = this.#urnOf(request);
    if (this.#registered.has(urn)) throw new Error(`two resources have the URN ${urn}`);
    this.#registered.add(urn);
    const secrets = [...new Set([...secretProperties(request.inputs), ...request.additionalSecrets])];
    const inputs = unmarked(request.inputs) as Values;
    const provider = request.custom ? this.#options.providerOf(request.type) : undefined;
    const old = this.#before(urn, request.aliases);
    const { type, name, custom, parent, dependencies, retainOnDelete } = request;
    const base = { urn, type, name, custom, parent, dependencies, retainOnDelete, secrets, initErrors: [] };
    const checked = provider === undefined ? inputs : await provider.check(old?.inputs ?? {}, inputs, urn);
    await this.#options.analyze({ urn, type, name, inputs: checked });
    if (provider === undefined)
      return this.#applyWithoutProvider({ ...base, id: old?.id ?? "", inputs, outputs: inputs }, old);
    return this.#applyWithProvider({ ...base, id: old?.id ?? "", inputs: checked, outputs: checked }, old, provider);
  }

  /** The resource's state under its URN or one of its aliases. */
  #before(urn: string, aliases: readonly string[]): ResourceState | undefined {
    const { state, preview } = this.#options;
    const old = [urn, ...aliases].map((each) => state.get(each)).find((each) => each !== undefined);
    if (old === undefined || old.urn === urn) return old;
    this.#registered.add(old.urn);
    if (!preview) state.rename(old, urn);
    return { ...old, urn };
  }

  registerOutputs(urn: string, outputs: Values): void {
    const plain = unmarked(outputs) as Values;
    const known = this.#options.state.get(urn);
    if (urn.includes("pulumi:pulumi:Stack")) this.outputs = plain;
    if (known === undefined || this.#options.preview) return;
    this.#options.state.put({ ...known, outputs: plain, secrets: [...known.secrets, ...secretProperties(outputs)] });
  }

  /** Deletes replaced resources and resources that the program no longer declares. Dependents are deleted first. */
  async deleteOthers(): Promise<void> {
    const { state } = this.#options;
    const undeclared = state.list().filter(({ urn }) => !this.#registered.has(urn));
    for (const resource of deletionOrder([...undeclared, ...state.replaced()])) await this.#delete(resource);
  }

  async #delete(resource: ResourceState): Promise<void> {
    const provider = resource.custom ? this.#options.providerOf(resource.type) : undefined;
    const operation = resource.isReplaced === true ? "delete-replaced" : "delete";
    this.#report(resource.retainOnDelete ? "retain" : operation, resource, undefined);
    if (this.#options.preview) return;
    if (!resource.retainOnDelete) await provider?.delete(resource.id, resource.outputs);
    this.#options.state.remove(resource);
  }

  /** Records a component, or another resource whose outputs are its inputs. */
  #applyWithoutProvider(resource: ResourceState, old: ResourceState | undefined): Registered {
    this.#report(old === undefined ? "create" : "same", resource, old);
    if (!this.#options.preview) this.#options.state.put(resource);
    return responseFor(resource);
  }

  async #applyWithProvider(resource: ResourceState, old: ResourceState | undefined, provider: ResourceProvider) {
    if (old === undefined) {
      this.#report("create", resource, old);
      if (this.#options.preview) return responseFor(resource);
      return responseFor(await this.#create(resource, provider));
    }
    const { operation, deleteBeforeReplace } = await operationFor(resource, old, provider);
    this.#report(operation, resource, old);
    if (operation === "same") return responseFor(this.#keep({ ...resource, outputs: old.outputs }));
    if (this.#options.preview) return responseFor(resource);
    if (operation === "update") return responseFor(await this.#update(resource, old, provider));
    if (!deleteBeforeReplace) return responseFor(await this.#create(resource, provider, old));
    await this.#delete({ ...old, isReplaced: true });
    return responseFor(await this.#create(resource, provider));
  }

  /** @param replaced the resource that it replaces once it is created */
  #create(resource: ResourceState, provider: ResourceProvider, replaced?: ResourceState): Promise<ResourceState> {
    return this.#record(resource, replaced, () => provider.create(resource.inputs));
  }

  #update(resource: ResourceState, old: ResourceState, provider: ResourceProvider): Promise<ResourceState> {
    return this.#record(resource, undefined, async () => ({
      id: old.id,
      outputs: await provider.update(old.id, old.outputs, resource.inputs),
    }));
  }

  /** Records the result in the state, even if initialization failed. */
  async #record(
    resource: ResourceState,
    replaced: ResourceState | undefined,
    make: () => Promise<{ id: string; outputs: Values }>,
  ): Promise<ResourceState> {
    try {
      return this.#keep({ ...resource, ...(await make()) }, replaced);
    } catch (error) {
      if (error instanceof InitError) {
        this.#keep({ ...resource, id: error.id, outputs: error.outputs, initErrors: error.reasons }, replaced);
      }
      throw error;
    }
  }

  #keep(resource: ResourceState, replaced?: ResourceState): ResourceState {
    const { state, preview } = this.#options;
    if (preview) return resource;
    if (replaced === undefined) state.put(resource);
    else state.replace(replaced, resource);
    return resource;
  }

  #report(operation: Operation, resource: ResourceState, old: ResourceState | undefined): void {
    const { urn, type, name, inputs } = resource;
    const changes = old === undefined ? [] : changesOf(old, resource);
    this.steps.push({ operation, urn, type, name, inputs, changes });
  }

  /** The URN contains only the type of the parent. */
  #urnOf({ type, name, parent }: ResourceRequest): string {
    const { stack, project } = this.#options;
    const above = parent === "" ? "" : (parent.split("::")[2] ?? "");
    const prefix = above === "" || above === "pulumi:pulumi:Stack" ? "" : `${above}$`;
    return `urn:pulumi:${stack}::${project}::${prefix}${type}::${name}`;
  }
}

async function operationFor(
  resource: ResourceState,
  old: ResourceState,
  provider: ResourceProvider,
): Promise<{ operation: "same" | "update" | "replace"; deleteBeforeReplace: boolean }> {
  const { changes, replaces, deleteBeforeReplace } = await provider.diff(old.id, old, resource.inputs);
  const isChanged = changes || old.initErrors.length > 0;
  return { operation: replaces.length > 0 ? "replace" : isChanged ? "update" : "same", deleteBeforeReplace };
}

function responseFor({ urn, id, outputs, secrets }: ResourceState): Registered {
  return { urn, id, outputs: marked(outputs, secrets) };
}

function changesOf(old: ResourceState, { inputs, secrets }: ResourceState): Step["changes"] {
  const properties = [...new Set([...Object.keys(old.inputs), ...Object.keys(inputs)])];
  return properties
    .filter((property) => property !== "__provider")
    .filter((property) => JSON.stringify(old.inputs[property]) !== JSON.stringify(inputs[property]))
    .map((property) => {
      const isSecret = secrets.includes(property) || old.secrets.includes(property);
      const shown = (value: unknown): unknown => (isSecret ? "[secret]" : value);
      return { property, before: shown(old.inputs[property]), after: shown(inputs[property]) };
    });
}

/** Sorts the resources so that dependents and children come before the resources that they depend on. */
function deletionOrder(resources: readonly ResourceState[]): ResourceState[] {
  const ordered: ResourceState[] = [];
  const seen = new Set<ResourceState>();
  const add = (resource: ResourceState): void => {
    if (seen.has(resource)) return;
    seen.add(resource);
    for (const other of resources) {
      if (other !== resource && (other.parent === resource.urn || other.dependencies.includes(resource.urn)))
        add(other);
    }
    ordered.push(resource);
  };
  // Resources without an order between them are deleted latest first.
  for (const resource of resources.toReversed()) add(resource);
  return ordered;
}
