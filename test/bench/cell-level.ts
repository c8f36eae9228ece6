import { once } from "node:events";
import { rm } from "node:fs/promises";
import type { RunningCell } from "../setup/cell-rig.ts";
import { Cells, namespace } from "../setup/cells.ts";
import { openBareRunsc, type BareRunscOptions } from "./bare-runsc.ts";
import { BareTurns } from "./bare-turns.ts";
import { newFigure, phases, reportTurns, stopwatch, type Figure, type LevelContext } from "./figure.ts";
import { firstAnswer, workloadCommand, workloadPort } from "./workload.ts";

/**
 * Figures of cells without a cluster. Starts a cell as a node would (from TypeScript source, which starts slower than the
 * bundle) and calls it as a controller would. Excludes the API and reconciles.
 */
export async function cellLevel(context: LevelContext): Promise<void> {
  const level = await CellLevel.open(context);
  const { only, sizesMiB } = context.options;
  if (only.has("sandbox")) await level.sandbox();
  for (const sizeMiB of sizesMiB) {
    if (only.has("checkpoint")) await level.checkpoint(sizeMiB);
    if (only.has("clone")) await level.clone(sizeMiB);
  }
}

class CellLevel {
  readonly #context: LevelContext;
  readonly #cells: Cells;
  readonly #bare: BareTurns;

  private constructor(context: LevelContext, cells: Cells, bare: BareRunscOptions) {
    this.#context = context;
    this.#cells = cells;
    this.#bare = new BareTurns(context, bare);
  }

  static async open(context: LevelContext): Promise<CellLevel> {
    const cells = await Cells.open(context.rootPath);
    context.cleanUp.add(() => cells.close());
    const bare = await openBareRunsc(context.rootPath, context.cleanUp);
    return new CellLevel(context, cells, bare);
  }

  async sandbox(): Promise<void> {
    const figure = this.#figure("sandbox", 0, { ratios: [{ ramet: "ready", bare: "create+start", limit: 2 }] });
    await reportTurns(this.#context, figure, {
      ramet: async (_, measured) => {
        let cell: RunningCell | undefined;
        const measures = await measured(async () => {
          const elapsed = stopwatch();
          cell = await this.#startCell("boot", 0);
          const listening = elapsed();
          await this.#cells.client.boot(cell.address, { identity: cell.identity });
          const ready = elapsed();
          await firstAnswer(cell.address.ip);
          return { "cell listens": listening, ready, answers: elapsed() };
        });
        await this.#stop(cell);
        return measures;
      },
      bare: this.#bare.birth,
    });
  }

  async checkpoint(sizeMiB: number): Promise<void> {
    const figure = this.#figure("checkpoint", sizeMiB, {
      ratios: [
        { ramet: "paused", bare: "runsc checkpoint", limit: 1.3 },
        { ramet: "paused, seen inside", bare: "paused, seen inside" },
        { ramet: "whole", bare: "runsc checkpoint" },
      ],
      goals: sizeMiB === 1024 ? { paused: 600 } : {},
    });
    const source = await this.#source(sizeMiB);
    const bare = await this.#bare.running(sizeMiB);
    await reportTurns(this.#context, figure, {
      ramet: async (turn, measured) => {
        const checkpointId = `turn-${sizeMiB}-${turn}`;
        await firstAnswer(source.address.ip, "/gap/start");
        const measures = await measured(async () => {
          const elapsed = stopwatch();
          const result = await this.#cells.checkpoint(source, checkpointId);
          return { whole: elapsed(), paused: result.pausedMilliseconds, ...phases(result.phases) };
        });
        const gap = Number(await firstAnswer(source.address.ip, "/gap/stop"));
        await this.#cells.store.remove({ namespace, checkpointId });
        return { ...measures, "paused, seen inside": gap };
      },
      bare: this.#bare.checkpoint(bare),
    });
    await bare.remove();
    await this.#stop(source);
  }

  async clone(sizeMiB: number): Promise<void> {
    const figure = this.#figure("clone", sizeMiB, {
      ratios: [
        { ramet: "ready", bare: "runsc restore", limit: 2 },
        { ramet: "answers", bare: "answers" },
      ],
      goals: sizeMiB === 1024 ? { answers: 400 } : {},
    });
    const source = await this.#source(sizeMiB);
    const checkpointId = `source-${sizeMiB}`;
    const { manifestDigest } = await this.#cells.checkpoint(source, checkpointId);
    const image = await this.#bare.image(sizeMiB);
    await this.#stop(source);
    await reportTurns(this.#context, figure, {
      ramet: async (_, measured) => {
        let cell: RunningCell | undefined;
        const measures = await measured(async () => {
          const elapsed = stopwatch();
          cell = await this.#startCell("wait", sizeMiB);
          const listening = elapsed();
          const result = await this.#cells.restore(cell, { checkpointId, manifestDigest });
          const ready = elapsed();
          await firstAnswer(cell.address.ip);
          return { "cell listens": listening, ready, answers: elapsed(), ...phases(result.phases) };
        });
        await this.#stop(cell);
        return measures;
      },
      bare: this.#bare.restore(image, sizeMiB),
    });
    await rm(image, { recursive: true });
    await this.#cells.store.remove({ namespace, checkpointId });
  }

  #figure(name: string, sizeMiB: number, rest: Partial<Figure>): Figure {
    return newFigure({ name, level: "cell", sizeMiB, hugePages: this.#context.hugePages, ...rest });
  }

  async #source(sizeMiB: number): Promise<RunningCell> {
    await this.#context.accounts.ramet?.join();
    const cell = await this.#startCell("boot", sizeMiB);
    await this.#cells.client.boot(cell.address, { identity: cell.identity });
    await firstAnswer(cell.address.ip);
    return cell;
  }

  #startCell(start: "boot" | "wait", sizeMiB: number): Promise<RunningCell> {
    const container = { command: workloadCommand(sizeMiB), ports: [workloadPort] };
    return this.#cells.rig.startCell({ name: "bench", start, container });
  }

  async #stop(cell: RunningCell | undefined): Promise<void> {
    if (cell === undefined) return;
    const exited = once(cell.process, "exit");
    await this.#cells.client.stop(cell.address, "measured");
    await exited;
    await rm(cell.directory, { recursive: true, force: true });
  }
}
