import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { BareSandbox, type BareRunscOptions } from "./bare-runsc.ts";
import { stopwatch, type LevelContext, type Turns } from "./figure.ts";
import { firstAnswer } from "./workload.ts";

type BareTurn = Turns["bare"];

/** The turns of bare `runsc`, the baseline of each level of Ramet. */
export class BareTurns {
  readonly #context: LevelContext;
  readonly #bare: BareRunscOptions;
  #number = 0;

  constructor(context: LevelContext, bare: BareRunscOptions) {
    this.#context = context;
    this.#bare = bare;
  }

  async sandbox(sizeMiB: number): Promise<BareSandbox> {
    await this.#context.accounts.bare?.join();
    const sandbox = await BareSandbox.prepare(this.#bare, ++this.#number, sizeMiB);
    this.#context.cleanUp.add(() => sandbox.remove());
    return sandbox;
  }

  /** A sandbox whose workload responds. */
  async running(sizeMiB: number): Promise<BareSandbox> {
    const sandbox = await this.sandbox(sizeMiB);
    await sandbox.createAndStart();
    await firstAnswer(sandbox.ip);
    return sandbox;
  }

  /** A directory with the checkpoint of a deleted sandbox. */
  async image(sizeMiB: number): Promise<string> {
    const image = join(this.#bare.directory, `source-${sizeMiB}`);
    const origin = await this.running(sizeMiB);
    await mkdir(image);
    await origin.checkpoint(image);
    await origin.remove();
    return image;
  }

  readonly birth: BareTurn = async (_, measured) => {
    const sandbox = await this.sandbox(0);
    const measures = await measured(async () => {
      const elapsed = stopwatch();
      await sandbox.createAndStart();
      const started = elapsed();
      await firstAnswer(sandbox.ip);
      return { "create+start": started, answers: elapsed() };
    });
    await sandbox.remove();
    return measures;
  };

  checkpoint(sandbox: BareSandbox): BareTurn {
    return async (turn, measured) => {
      const image = join(this.#bare.directory, `image-${turn}`);
      await mkdir(image);
      await firstAnswer(sandbox.ip, "/gap/start");
      const measures = await measured(async () => {
        const elapsed = stopwatch();
        await sandbox.checkpoint(image);
        return { "runsc checkpoint": elapsed() };
      });
      const gap = Number(await firstAnswer(sandbox.ip, "/gap/stop"));
      await rm(image, { recursive: true });
      return { ...measures, "paused, seen inside": gap };
    };
  }

  /** @param created whether the container is created before the measurement, as in a waiting Pod */
  restore(image: string, sizeMiB: number, { created = false } = {}): BareTurn {
    return async (_, measured) => {
      const sandbox = await this.sandbox(sizeMiB);
      if (created) await sandbox.create();
      const measures = await measured(async () => {
        const elapsed = stopwatch();
        await sandbox.restore(image);
        const restored = elapsed();
        await firstAnswer(sandbox.ip);
        return { "runsc restore": restored, answers: elapsed() };
      });
      await sandbox.remove();
      return measures;
    };
  }
}
