import { status } from "@grpc/grpc-js";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DynamicProviderProcess } from "../engine/dynamic-provider-process.ts";
import { linkPackages } from "../engine/link-packages.ts";
import type { Difference } from "../engine/resource-provider.ts";
import type { Values } from "../engine/values.ts";
import { providerTexts } from "./provider-texts.ts";

export interface ProviderWorldOptions {
  kubeconfig: string;
  configuration?: Record<string, string>;
}

/** The error of a call whose process was killed, for `toMatchObject`. */
export const killed = { cause: { code: status.UNAVAILABLE } };

/** One dynamic resource in a state. */
export interface Kept {
  id: string;
  inputs: Values;
  outputs: Values;
}

/**
 * Calls Pulumi's own process for dynamic resources as the engine does, but without a program. The process evaluates the provider
 * texts of a state. This saves the seconds that a program needs to start.
 */
export class ProviderWorld {
  /** The output of the resources since the last operation. */
  lines: string[] = [];
  /** Called with each line as it is printed. */
  onLine: (line: string) => void = () => undefined;
  readonly #home: string;
  readonly #options: ProviderWorldOptions;
  #started: DynamicProviderProcess | undefined;

  private constructor(home: string, options: ProviderWorldOptions) {
    this.#home = home;
    this.#options = options;
  }

  static async open(options: ProviderWorldOptions): Promise<ProviderWorld> {
    const home = await mkdtemp(join(tmpdir(), "ramet-provider-"));
    await linkPackages(home);
    const world = new ProviderWorld(home, options);
    await world.restart();
    return world;
  }

  /** Starts a new process, optionally with another configuration or kubeconfig. */
  async restart(options: Partial<ProviderWorldOptions> = {}): Promise<void> {
    await this.#started?.stop();
    const { kubeconfig, configuration = {} } = { ...this.#options, ...options };
    const environment = { ...process.env, KUBECONFIG: kubeconfig };
    const onLine = (line: string): void => {
      this.lines.push(line);
      this.onLine(line);
    };
    const where = { directory: this.#home, project: "program" };
    this.#started = new DynamicProviderProcess({ ...where, configuration, environment, onLine });
  }

  /** Kills the process as the out-of-memory killer does. */
  async kill(): Promise<void> {
    await this.#process.kill();
  }

  /** Cancels, as the engine does when the user presses Ctrl-C. */
  async cancel(): Promise<void> {
    await this.#process.cancel();
  }

  /** Runs `pulumi up` for one resource. @throws InitError, or Error with the message of the handler */
  async up(kind: keyof typeof providerTexts, request: Values, old?: Kept): Promise<Kept> {
    this.lines = [];
    const inputs = await this.#process.check(old?.inputs ?? {}, { ...request, __provider: providerTexts[kind] });
    if (old === undefined) return { inputs, ...(await this.#process.create(inputs)) };
    return { inputs, id: old.id, outputs: await this.#process.update(old.id, old.outputs, inputs) };
  }

  /** Previews one resource. Returns the difference and records the messages in `lines`. */
  async preview(kind: keyof typeof providerTexts, request: Values, old: Kept): Promise<Difference> {
    this.lines = [];
    const inputs = await this.#process.check(old.inputs, { ...request, __provider: providerTexts[kind] });
    return this.#process.diff(old.id, old, inputs);
  }

  /** Resolves to undefined if the object no longer exists. */
  async refresh(kept: Kept): Promise<Kept | undefined> {
    const outputs = await this.#process.read(kept.id, kept.outputs);
    return outputs && { ...kept, outputs };
  }

  async delete({ id, outputs }: Kept): Promise<void> {
    this.lines = [];
    await this.#process.delete(id, outputs);
  }

  async close(): Promise<void> {
    await this.#started?.stop();
    await rm(this.#home, { recursive: true, force: true });
  }

  get #process(): DynamicProviderProcess {
    if (this.#started === undefined) throw new Error("the process for dynamic resources has not been started");
    return this.#started;
  }
}
