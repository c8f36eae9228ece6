import { plain, ProviderPlugin } from "./provider-plugin.ts";
import type { Difference, ResourceProvider } from "./resource-provider.ts";
import type { Values } from "./values.ts";

export interface PluginOptions {
  project: string;
  stack: string;
  environment: NodeJS.ProcessEnv;
  onLine: (line: string) => void;
}

/** Resources of Ramet's provider process, which starts when the program registers its `Provider`. A program has one. */
export class PluginResources {
  readonly #options: PluginOptions;
  #started: Promise<ProviderPlugin> | undefined;

  constructor(options: PluginOptions) {
    this.#options = options;
  }

  /** The provider as a resource of the program. */
  get settings(): ResourceProvider {
    const configure = async (settings: Values): Promise<Values> => {
      this.#started ??= ProviderPlugin.start(this.#options.environment, settings);
      const plugin = await this.#started;
      plugin.onLine = this.#options.onLine;
      await plugin.configure(settings);
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
      check: async (olds, news) => plain(await (await this.#plugin).check(urnOf(news), news, olds)),
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

  async stop(): Promise<void> {
    await (await this.#started)?.stop();
  }

  get #plugin(): Promise<ProviderPlugin> {
    if (this.#started === undefined) throw new Error("the program has registered no Provider of ramet");
    return this.#started;
  }
}
