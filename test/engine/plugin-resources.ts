import type { Registered } from "./deployment.ts";
import { plain, ProviderPlugin } from "./provider-plugin.ts";
import type { Difference, ResourceProvider } from "./resource-provider.ts";
import { unknownText, type Values } from "./values.ts";

export interface PluginOptions {
  project: string;
  stack: string;
  environment: NodeJS.ProcessEnv;
  onLine: (line: string) => void;
}

/** A component that a program in another language declares. */
export interface ConstructCall {
  type: string;
  name: string;
  parent: string;
  inputs: Values;
  dependencies: string[];
  project: string;
  stack: string;
  preview: boolean;
}

/**
 * Resources of Ramet's provider process. It starts when the program registers its `Provider`, of which a program has one, or its first
 * resource without one.
 */
export class PluginResources {
  readonly #options: PluginOptions;
  #started: Promise<ProviderPlugin> | undefined;
  #isKnown = true;

  constructor(options: PluginOptions) {
    this.#options = options;
  }

  /** The provider as a resource of the program. */
  get settings(): ResourceProvider {
    const configure = async (settings: Values): Promise<Values> => {
      this.#isKnown = !JSON.stringify(settings).includes(unknownText);
      this.#started ??= this.#start(settings);
      await (await this.#started).configure(settings);
      return settings;
    };
    return {
      check: (_olds, news) => configure(news),
      diff: (_id, old, news) =>
        Promise.resolve({
          changes: JSON.stringify(old.inputs) !== JSON.stringify(news),
          replaces: [],
          deleteBeforeReplace: false,
        }),
      create: (inputs) => Promise.resolve({ id: "provider", outputs: inputs }),
      update: (_id, _old, news) => Promise.resolve(news),
      // A run without the program, such as a destroy, configures the provider from the state.
      read: (_id, outputs) => configure(outputs),
      delete: () => Promise.resolve(),
    };
  }

  of(type: string): ResourceProvider {
    const urnOf = ({ name }: Values): string =>
      `urn:pulumi:${this.#options.stack}::${this.#options.project}::${type}::${String(name)}`;
    return {
      check: async (olds, news, urn) => plain(await (await this.#plugin).check(urn, news, olds)),
      diff: async (id, old, news): Promise<Difference> => {
        const found = await (await this.#plugin).diff(urnOf(news), { id, ...old }, news);
        return { ...found, deleteBeforeReplace: false };
      },
      create: async (inputs) => {
        const { id, outputs } = await (await this.#plugin).create(urnOf(inputs), inputs);
        return { id, outputs: plain(outputs) };
      },
      update: async (id, old, news) => {
        const state = { id, inputs: {}, outputs: old };
        return plain((await (await this.#plugin).update(urnOf(news), state, news)).outputs);
      },
      read: async (id, outputs) => {
        const found = await (await this.#plugin).read(urnOf(outputs), id, { id, inputs: {}, outputs });
        return found && plain(found.outputs);
      },
      delete: async (id, outputs) => (await this.#plugin).delete(urnOf(outputs), { id, inputs: {}, outputs }),
    };
  }

  /**
   * Registers a component with all that belongs to it.
   * @param monitor the address to which the provider process registers them
   * @throws Error as Pulumi's engine if the program's `Provider` has unknown settings: a component needs its URN also in a preview
   */
  async construct(call: ConstructCall, monitor: string): Promise<Registered> {
    if (!this.#isKnown)
      throw new Error("cannot construct components if the provider is configured with unknown values");
    return (await this.#plugin).construct(call, monitor);
  }

  async stop(): Promise<void> {
    await (await this.#started)?.stop();
  }

  get #plugin(): Promise<ProviderPlugin> {
    this.#started ??= this.#start();
    return this.#started;
  }

  async #start(settings: Values = {}): Promise<ProviderPlugin> {
    const plugin = await ProviderPlugin.start(this.#options.environment, settings);
    plugin.onLine = this.#options.onLine;
    return plugin;
  }
}
