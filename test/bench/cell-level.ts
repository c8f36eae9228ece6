import { once } from "node:events";
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import type { CheckpointResult } from "../../src/api/cell.ts";
import type { Contents } from "../../src/api/contents.ts";
import type { CheckpointStore } from "../../src/store/checkpoint-store.ts";
import { directoryStore } from "../../src/store/directory/store.ts";
import { CellRig, type RunningCell } from "../setup/cell-rig.ts";
import { openBareRunsc, type BareRunscOptions } from "./bare-runsc.ts";
import { BareTurns } from "./bare-turns.ts";
import { newFigure, phases, reportTurns, stopwatch, type Figure, type LevelContext } from "./figure.ts";
import { firstAnswer, workloadCommand, workloadPort } from "./workload.ts";

const both: Contents = ["memory", "filesystem"];

/**
 * Figures of cells without a cluster: a cell is started as a node would start it (from TypeScript source, so its start
 * is slower than the bundled one's) and called as a controller would call it. It says nothing of API and reconciles.
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
  readonly #rig: CellRig;
  readonly #store: CheckpointStore;
  readonly #bare: BareTurns;

  private constructor(context: LevelContext, rig: CellRig, store: CheckpointStore, bare: BareRunscOptions) {
    this.#context = context;
    this.#rig = rig;
    this.#store = store;
    this.#bare = new BareTurns(context, bare);
  }

  static async open(context: LevelContext): Promise<CellLevel> {
    const rig = await CellRig.open(context.rootPath);
    context.cleanUp.add(() => rig.close());
    const root = join(rig.directory, "store");
    await mkdir(root);
    const bare = await openBareRunsc(context.rootPath, context.cleanUp);
    return new CellLevel(context, rig, directoryStore({ root }), bare);
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
          await this.#rig.client.boot(cell.address, { identity: cell.identity });
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
          const result = await this.#take(source, checkpointId);
          return { whole: elapsed(), paused: result.pausedMilliseconds, ...phases(result.phases) };
        });
        const gap = Number(await firstAnswer(source.address.ip, "/gap/stop"));
        await this.#store.remove({ namespace: "test", checkpointId });
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
    const { manifestDigest } = await this.#take(source, checkpointId);
    const image = await this.#bare.image(sizeMiB);
    await this.#stop(source);
    await reportTurns(this.#context, figure, {
      ramet: async (_, measured) => {
        let cell: RunningCell | undefined;
        const measures = await measured(async () => {
          const elapsed = stopwatch();
          cell = await this.#startCell("wait", sizeMiB);
          const listening = elapsed();
          const grant = await this.#store.grantRead({
            namespace: "test",
            checkpointId,
            manifestDigest,
            ttlMilliseconds: 60_000,
          });
          const { identity } = cell;
          const result = await this.#rig.client.restore(cell.address, { identity, grant, contents: both });
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
    await this.#store.remove({ namespace: "test", checkpointId });
  }

  #figure(name: string, sizeMiB: number, rest: Partial<Figure>): Figure {
    return newFigure({ name, level: "cell", sizeMiB, hugePages: this.#context.hugePages, ...rest });
  }

  async #source(sizeMiB: number): Promise<RunningCell> {
    await this.#context.accounts.ramet?.join();
    const cell = await this.#startCell("boot", sizeMiB);
    await this.#rig.client.boot(cell.address, { identity: cell.identity });
    await firstAnswer(cell.address.ip);
    return cell;
  }

  #startCell(start: "boot" | "wait", sizeMiB: number): Promise<RunningCell> {
    const container = { command: workloadCommand(sizeMiB), ports: [workloadPort] };
    return this.#rig.startCell({ name: "bench", start, container });
  }

  async #take(source: RunningCell, checkpointId: string): Promise<CheckpointResult> {
    const grant = await this.#store.grantWrite({ namespace: "test", checkpointId, ttlMilliseconds: 60_000 });
    return this.#rig.client.checkpoint(source.address, { grant, contents: both, keepRunning: true });
  }

  async #stop(cell: RunningCell | undefined): Promise<void> {
    if (cell === undefined) return;
    const exited = once(cell.process, "exit");
    await this.#rig.client.stop(cell.address, "measured");
    await exited;
    await rm(cell.directory, { recursive: true, force: true });
  }
}
