import { DynamicProviderProcess, type DynamicProviderOptions } from "./dynamic-provider-process.ts";
import type { Difference, ResourceProvider } from "./resource-provider.ts";
import type { Values } from "./values.ts";

/** Pulumi's process for dynamic resources, which is started when the first of them is asked for: many programs have none. */
export class DynamicProviderOnDemand implements ResourceProvider {
  readonly #options: DynamicProviderOptions;
  #started: Promise<DynamicProviderProcess> | undefined;

  constructor(options: DynamicProviderOptions) {
    this.#options = options;
  }

  async check(olds: Values, news: Values): Promise<Values> {
    return (await this.#process()).check(olds, news);
  }

  async diff(id: string, old: { outputs: Values }, news: Values): Promise<Difference> {
    return (await this.#process()).diff(id, old, news);
  }

  async create(inputs: Values): Promise<{ id: string; outputs: Values }> {
    return (await this.#process()).create(inputs);
  }

  async update(id: string, old: Values, news: Values): Promise<Values> {
    return (await this.#process()).update(id, old, news);
  }

  async read(id: string, outputs: Values): Promise<Values | undefined> {
    return (await this.#process()).read(id, outputs);
  }

  async delete(id: string, outputs: Values): Promise<void> {
    return (await this.#process()).delete(id, outputs);
  }

  /** Has it die in the middle of what it does. */
  async kill(): Promise<void> {
    process.kill((await this.#process()).pid, "SIGKILL");
  }

  async stop(): Promise<void> {
    // Whoever asked has heard why it did not start.
    await this.#started?.then(
      (process) => process.stop(),
      () => undefined,
    );
  }

  #process(): Promise<DynamicProviderProcess> {
    return (this.#started ??= DynamicProviderProcess.start(this.#options));
  }
}
