import { writeFile } from "node:fs/promises";
import { acquireTools } from "../../src/local/tools/acquire-tools.ts";
import { pythonRootPath } from "../setup/python-image.ts";
import { memoryAtRest, type Memory } from "./at-rest.ts";
import { cellLevel } from "./cell-level.ts";
import { clusterLevel } from "./cluster-level.ts";
import { CleanUp } from "./clean-up.ts";
import { CpuAccount } from "./cpu-account.ts";
import type { Figure } from "./figure.ts";
import { LocalCluster } from "./local-cluster.ts";
import { measureGrowth, type GrowthPoint } from "./growth.ts";
import { allowHugePages } from "./huge-pages.ts";
import { describeMachine } from "./machine.ts";
import { benchOptions, usage, type BenchOptions } from "./options.ts";
import { figureTable, growthTable, machineLines, memoryTable, writesTable } from "./report.ts";
import { measureWrites, type Writes } from "./writes.ts";

/** Measures Ramet beside bare `runsc`. Exits with 0 when everything could be measured, whatever the figures say. */
async function main(): Promise<number> {
  const options = benchOptions(process.argv.slice(2));
  if (options === undefined) {
    console.log(usage);
    return 0;
  }
  const interrupted = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM"] as const)
    process.once(signal, () => {
      interrupted.abort();
    });
  const cleanUp = new CleanUp();
  try {
    return await bench(options, cleanUp, interrupted.signal);
  } catch (error) {
    if (interrupted.signal.aborted) return 130;
    throw error;
  } finally {
    await cleanUp.run();
  }
}

async function bench(options: BenchOptions, cleanUp: CleanUp, signal: AbortSignal): Promise<number> {
  const tools = await acquireTools({ names: ["runsc", "ramet-guest", "ramet-link"], progress: console.error, signal });
  const machine = await describeMachine(tools.runsc);
  console.log(machineLines(machine));
  const figures: Figure[] = [];
  const others: ClusterCosts = {};
  const accounts = { ramet: await account("ramet", cleanUp), bare: await account("bare", cleanUp) };
  const rootPath = await pythonRootPath();
  const report = (figure: Figure): void => {
    figures.push(figure);
    console.log(`\n${figureTable(figure)}`);
  };
  for (const hugePages of options.tune ? [false, true] : [false]) {
    if (hugePages) cleanUp.add(await allowHugePages());
    const context = { options, accounts, cleanUp, hugePages, rootPath, signal, report };
    if (options.levels.has("cell")) await cellLevel(context);
    if (options.levels.has("cluster")) {
      await accounts.ramet?.join();
      const cluster = await LocalCluster.up("bench", signal);
      cleanUp.add(() => cluster.down());
      await clusterLevel(context, cluster);
      if (!hugePages) Object.assign(others, await clusterCosts(cluster, options, signal));
      await accounts.bare?.join();
    }
  }
  if (options.json !== undefined)
    await writeFile(
      options.json,
      JSON.stringify({ machine, options: plain(options), figures: figures.map(plainFigure), ...others }, null, 2),
    );
  return 0;
}

interface ClusterCosts {
  writes?: Writes[];
  memory?: Memory[];
  growth?: GrowthPoint[];
}

/** What an idle cluster and single wishes cost; bare `runsc` has no such thing. */
async function clusterCosts(
  cluster: LocalCluster,
  { only, n, rounds }: BenchOptions,
  signal: AbortSignal,
): Promise<ClusterCosts> {
  const costs: ClusterCosts = {};
  if (only.has("writes")) {
    costs.writes = await measureWrites(cluster, Math.min(n, 10), signal);
    console.log(`\n${writesTable(costs.writes)}`);
  }
  if (only.has("rest")) {
    costs.memory = await memoryAtRest(cluster);
    console.log(`\n${memoryTable(costs.memory)}`);
  }
  if (only.has("growth")) {
    costs.growth = await measureGrowth(cluster, { rounds, signal });
    console.log(`\n${growthTable(costs.growth)}`);
  }
  return costs;
}

async function account(name: string, cleanUp: CleanUp): Promise<CpuAccount | undefined> {
  const opened = await CpuAccount.open(name);
  if (opened !== undefined) cleanUp.add(() => opened.close());
  return opened;
}

function plain({ only, levels, ...rest }: BenchOptions): object {
  return { ...rest, only: [...only], levels: [...levels] };
}

function plainFigure({ ramet, bare, ...rest }: Figure): object {
  const side = ({ values }: Figure["ramet"], samples = { ramet, bare }): object =>
    Object.fromEntries(
      [...values.keys()].map((name) => [name, { ...samples.ramet.summary(name), values: values.get(name) }]),
    );
  return { ...rest, ramet: side(ramet), bare: side(bare) };
}

main().then(
  (code) => process.exit(code),
  (error: unknown) => {
    console.error(error);
    process.exit(1);
  },
);
