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

/** What a call whose process was killed is rejected with, for `toMatchObject`. */
export const killed = { cause: { code: status.UNAVAILABLE } };

/** What a state keeps of one dynamic resource. */
export interface Kept {
  id: string;
  inputs: Values;
  outputs: Values;
}

/**
 * Pulumi's own process for dynamic resources, asked as the engine asks it, without a program: it evaluates the texts
 * that stand in a state. A program costs seconds to start, and has nothing to do with how an object is made, read and
 * removed.
 */
export class ProviderWorld {
  /** The output of the resources since the last operation. */
  lines: string[] = [];
  /** Hears of each line as it comes. */
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

  /** With another configuration or kubeconfig, in a process of its own. */
  async restart(options: Partial<ProviderWorldOptions> = {}): Promise<void> {
    await this.#started?.stop();
    const { kubeconfig, configuration = {} } = { ...this.#options, ...options };
    const environment = { ...process.env, KUBECONFIG: kubeconfig };
    const onLine = (line: string): void => {
      this.lines.push(line);
      this.onLine(line);
    };
    const where = { directory: this.#home, project: "program" };
    this.#started = await DynamicProviderProcess.start({ ...where, configuration, environment, onLine });
  }

  /** As the out-of-memory killer would. */
  kill(): void {
    process.kill(this.#process.pid, "SIGKILL");
  }

  /** `pulumi up` of one resource. @throws InitError, or Error with what the handler said */
  async up(kind: keyof typeof providerTexts, request: Values, old?: Kept): Promise<Kept> {
    this.lines = [];
    const inputs = await this.#process.check(old?.inputs ?? {}, { ...request, __provider: providerTexts[kind] });
    if (old === undefined) return { inputs, ...(await this.#process.create(inputs)) };
    return { inputs, id: old.id, outputs: await this.#process.update(old.id, old.outputs, inputs) };
  }

  /** What a preview shows of one resource: the difference, and in `lines` what is said of it. */
  async preview(kind: keyof typeof providerTexts, request: Values, old: Kept): Promise<Difference> {
    this.lines = [];
    const inputs = await this.#process.check(old.inputs, { ...request, __provider: providerTexts[kind] });
    return this.#process.diff(old.id, old, inputs);
  }

  /** Undefined: it is gone. */
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
