import { once } from "node:events";
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import type { CheckpointResult } from "../../src/api/cell.ts";
import type { Contents } from "../../src/api/contents.ts";
import type { CheckpointStore } from "../../src/store/checkpoint-store.ts";
import { directoryStore } from "../../src/store/directory/store.ts";
import { CellRig, type RunningCell } from "../setup/cell-rig.ts";
import { BareSandbox, unmountBareState, type BareRunscOptions } from "./bare-runsc.ts";
import { newFigure, stopwatch, takeTurns, type Figure, type LevelContext } from "./figure.ts";
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
  readonly #bare: BareRunscOptions;
  #number = 0;

  private constructor(context: LevelContext, rig: CellRig, store: CheckpointStore) {
    this.#context = context;
    this.#rig = rig;
    this.#store = store;
    this.#bare = {
      runsc: rig.tools.runsc,
      link: rig.tools["ramet-link"],
      guest: rig.tools["ramet-guest"],
      rootPath: context.rootPath,
      directory: join(rig.directory, "bare"),
    };
  }

  static async open(context: LevelContext): Promise<CellLevel> {
    const rig = await CellRig.open(context.rootPath);
    context.cleanUp.add(() => rig.close());
    const root = join(rig.directory, "store");
    await mkdir(root);
    const level = new CellLevel(context, rig, directoryStore({ root }));
    context.cleanUp.add(() => unmountBareState(level.#bare));
    return level;
  }

  async sandbox(): Promise<void> {
    const figure = this.#figure("sandbox", 0, { ratios: [{ ramet: "ready", bare: "create+start", limit: 2 }] });
    await this.#turns(figure, {
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
      bare: async (_, measured) => {
        const sandbox = await this.#bareSandbox(0);
        const measures = await measured(async () => {
          const elapsed = stopwatch();
          await sandbox.createAndStart();
          const started = elapsed();
          await firstAnswer(sandbox.ip);
          return { "create+start": started, answers: elapsed() };
        });
        await sandbox.remove();
        return measures;
      },
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
    const bare = await this.#bareSandbox(sizeMiB);
    await bare.createAndStart();
    await firstAnswer(bare.ip);
    await this.#turns(figure, {
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
      bare: async (turn, measured) => {
        const image = join(this.#bare.directory, `image-${turn}`);
        await mkdir(image);
        await firstAnswer(bare.ip, "/gap/start");
        const measures = await measured(async () => {
          const elapsed = stopwatch();
          await bare.checkpoint(image);
          return { "runsc checkpoint": elapsed() };
        });
        const gap = Number(await firstAnswer(bare.ip, "/gap/stop"));
        await rm(image, { recursive: true });
        return { ...measures, "paused, seen inside": gap };
      },
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
    const image = join(this.#bare.directory, `source-${sizeMiB}`);
    const origin = await this.#bareSandbox(sizeMiB);
    await origin.createAndStart();
    await firstAnswer(origin.ip);
    await mkdir(image);
    await origin.checkpoint(image);
    await origin.remove();
    await this.#stop(source);
    await this.#turns(figure, {
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
      bare: async (_, measured) => {
        const sandbox = await this.#bareSandbox(sizeMiB);
        const measures = await measured(async () => {
          const elapsed = stopwatch();
          await sandbox.restore(image);
          const restored = elapsed();
          await firstAnswer(sandbox.ip);
          return { "runsc restore": restored, answers: elapsed() };
        });
        await sandbox.remove();
        return measures;
      },
    });
    await rm(image, { recursive: true });
    await this.#store.remove({ namespace: "test", checkpointId });
  }

  #figure(name: string, sizeMiB: number, rest: Partial<Figure>): Figure {
    return newFigure({ name, level: "cell", sizeMiB, hugePages: this.#context.hugePages, ...rest });
  }

  async #turns(figure: Figure, sides: Pick<Parameters<typeof takeTurns>[1], "ramet" | "bare">): Promise<void> {
    const { options, accounts, signal, report } = this.#context;
    await takeTurns(figure, { n: options.n, accounts, signal, ...sides });
    report(figure);
  }

  async #source(sizeMiB: number): Promise<RunningCell> {
    await this.#context.accounts.ramet?.join();
    const cell = await this.#startCell("boot", sizeMiB);
    await this.#rig.client.boot(cell.address, { identity: cell.identity });
    await firstAnswer(cell.address.ip);
    return cell;
  }

  async #bareSandbox(sizeMiB: number): Promise<BareSandbox> {
    await this.#context.accounts.bare?.join();
    const sandbox = await BareSandbox.prepare(this.#bare, ++this.#number, sizeMiB);
    this.#context.cleanUp.add(() => sandbox.remove());
    return sandbox;
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

function phases(of: Record<string, number>): Record<string, number> {
  return Object.fromEntries(Object.entries(of).map(([name, value]) => [`phase ${name}`, value]));
}
