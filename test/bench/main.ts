import { writeFile } from "node:fs/promises";
import { acquireTools } from "../../src/local/tools/acquire-tools.ts";
import { pythonRootPath } from "../setup/python-image.ts";
import { measureClaims, type ClaimTimes } from "./claim-one.ts";
import { claimStormTable, claimTable } from "./claim-report.ts";
import { measureClaimStorms, type ClaimStorm } from "./claim-storm.ts";
import { memoryAtRest } from "./at-rest.ts";
import { type ClientApiCosts, measureClientApi } from "./client-api.ts";
import { clientApiTable, createStormTable } from "./client-api-report.ts";
import { type CreateStorm, measureCreateStorm } from "./create-storm.ts";
import { cellLevel } from "./cell-level.ts";
import { clusterLevel } from "./cluster-level.ts";
import { CleanUp } from "./clean-up.ts";
import { CpuAccount } from "./cpu-account.ts";
import { type FilesPoint, measureFiles } from "./files.ts";
import { capturedTable, filesTable, installsTable } from "./files-report.ts";
import { type CapturedFiles, measureCapturedFiles } from "./captured-files.ts";
import { type InstallTime, measureInstalls } from "./installs.ts";
import { measureExplain, type ExplainPoint } from "./explain.ts";
import { explainTable } from "./explain-report.ts";
import type { Figure, LevelContext } from "./figure.ts";
import { measureFloods, type FloodFigure } from "./floods.ts";
import { floodsTable } from "./floods-report.ts";
import { measureFork, type Fork } from "./fork.ts";
import { forkTable } from "./fork-report.ts";
import { measureGateway, type GatewayCosts } from "./gateway.ts";
import { gatewayTable } from "./gateway-report.ts";
import { hardeningTable, measureHardening, type HardeningFigure } from "./hardening.ts";
import { LocalCluster } from "./local-cluster.ts";
import { measureGrowth, type GrowthPoint } from "./growth.ts";
import { allowHugePages } from "./huge-pages.ts";
import { describeMachine } from "./machine.ts";
import type { Memory } from "./memory.ts";
import { measureMoves, type Moves } from "./moves.ts";
import { movesTable } from "./moves-report.ts";
import { measureNeighbours, type NeighbourFigure } from "./neighbours.ts";
import { neighboursTable } from "./neighbours-report.ts";
import { benchOptions, usage, type BenchOptions } from "./options.ts";
import { measurePools, type PoolFill } from "./pool.ts";
import { poolTable } from "./pool-report.ts";
import { measureProgram, type ProgramCosts } from "./program.ts";
import { programTable } from "./program-report.ts";
import { measureRecipe, type RecipeBuild } from "./recipe.ts";
import { recipeTable } from "./recipe-report.ts";
import { figureTable, growthTable, machineLines, memoryTable, writesTable } from "./report.ts";
import { measureScale, type ScalePoint } from "./scale.ts";
import { scaleTable } from "./scale-report.ts";
import { type InterpreterClones, measureInterpreter } from "./interpreter.ts";
import { interpreterTable } from "./interpreter-report.ts";
import { measureUpgrade, type Upgrade } from "./upgrade.ts";
import { upgradeTable } from "./upgrade-report.ts";
import { measureVolumes, type VolumeCosts } from "./volumes.ts";
import { volumesTable } from "./volumes-report.ts";
import { measureWrites, type Writes } from "./writes.ts";

/** Measures Ramet and bare `runsc`. Exits with 0 if all measurements succeed, regardless of the figures. */
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
    if (options.levels.has("cluster") && !isApartOnly(options)) {
      await accounts.ramet?.join();
      const cluster = await LocalCluster.up("bench", signal);
      cleanUp.add(() => cluster.down());
      await clusterLevel(context, cluster);
      if (!hugePages) Object.assign(others, await clusterCosts(cluster, context));
      await accounts.bare?.join();
    }
  }
  if (options.levels.has("cluster") && options.only.has("claim")) {
    // After the local cluster has stopped, because it would take CPU time.
    await cleanUp.run();
    others.claimStorms = await measureClaimStorms({ quick: options.n <= 5 }, signal);
    console.log(`\n${claimStormTable(others.claimStorms)}`);
  }
  if (options.levels.has("cluster") && options.only.has("pool")) {
    await cleanUp.run();
    others.pools = await measurePools({ quick: options.n <= 5 }, signal);
    console.log(`\n${poolTable(others.pools)}`);
  }
  if (options.levels.has("cluster") && options.only.has("floods")) {
    await cleanUp.run();
    others.floods = await measureFloods({ quick: options.n <= 5 }, signal);
    console.log(`\n${floodsTable(others.floods)}`);
  }
  if (options.levels.has("cell") && options.only.has("neighbours")) {
    await cleanUp.run();
    others.neighbours = await measureNeighbours(rootPath, { quick: options.n <= 5 }, signal);
    console.log(`\n${neighboursTable(others.neighbours)}`);
  }
  if (options.levels.has("cluster") && options.only.has("hardening")) {
    await cleanUp.run();
    others.hardening = await measureHardening(options.n, signal);
    console.log(`\n${hardeningTable(others.hardening)}`);
  }
  if (options.levels.has("cluster") && options.only.has("scale")) {
    await cleanUp.run();
    others.scale = await measureScale(options.objects, signal);
    console.log(`\n${scaleTable(others.scale)}`);
  }
  if (options.levels.has("cluster") && options.only.has("explain")) {
    await cleanUp.run();
    others.explain = await measureExplain({ most: Math.min(options.objects, 2_500), n: options.n }, signal);
    console.log(`\n${explainTable(others.explain)}`);
  }
  if (options.levels.has("cluster") && options.only.has("program")) {
    await cleanUp.run();
    others.program = await measureProgram({ n: Math.min(options.n, 10), signal, cleanUp });
    console.log(`\n${programTable(others.program)}`);
  }
  if (options.levels.has("cluster") && options.only.has("upgrade")) {
    await cleanUp.run();
    others.upgrade = await measureUpgrade(options.snapshots, signal);
    console.log(`\n${upgradeTable(others.upgrade)}`);
  }
  if (options.levels.has("cluster") && options.only.has("moves")) {
    await cleanUp.run();
    const quick = options.n <= 5;
    const sizesMiB = quick ? [0] : [0, 300, 1_024];
    const [sandboxes, minutes] = quick ? [3, 2] : [20, 10];
    others.moves = await measureMoves({ n: Math.min(options.n, 20), sizesMiB, sandboxes, minutes }, signal);
    console.log(`\n${movesTable(others.moves)}`);
  }
  if (options.levels.has("cluster") && options.only.has("interpreter")) {
    await cleanUp.run();
    others.interpreter = await measureInterpreter(options.n, signal);
    console.log(`\n${interpreterTable(others.interpreter)}`);
  }
  if (options.levels.has("cluster") && options.only.has("client-api")) {
    await cleanUp.run();
    others.createStorms = await measureCreateStorm({ quick: options.n <= 5 }, signal);
    console.log(`\n${createStormTable(others.createStorms)}`);
    others.clientApi = await measureClientApi(options.n, signal);
    console.log(`\n${clientApiTable(others.clientApi)}`);
  }
  if (options.json !== undefined)
    await writeFile(
      options.json,
      JSON.stringify({ machine, options: plain(options), figures: figures.map(plainFigure), ...others }, null, 2),
    );
  return 0;
}

/** These figures use a control plane of their own. */
function isApartOnly({ only }: BenchOptions): boolean {
  const separate: ReadonlySet<string> = new Set([
    "pool",
    "floods",
    "neighbours",
    "hardening",
    "scale",
    "explain",
    "program",
    "upgrade",
    "moves",
    "interpreter",
    "client-api",
  ]);
  return [...only].every((name) => separate.has(name));
}

interface ClusterCosts {
  writes?: Writes[];
  memory?: Memory[];
  growth?: GrowthPoint[];
  claims?: ClaimTimes;
  recipe?: RecipeBuild[];
  fork?: Fork;
  gateway?: GatewayCosts;
  pools?: PoolFill[];
  claimStorms?: ClaimStorm[];
  floods?: FloodFigure[];
  neighbours?: NeighbourFigure[];
  hardening?: HardeningFigure[];
  scale?: ScalePoint[];
  explain?: ExplainPoint[];
  program?: ProgramCosts;
  upgrade?: Upgrade;
  moves?: Moves;
  interpreter?: InterpreterClones[];
  createStorms?: CreateStorm[];
  volumes?: VolumeCosts;
  clientApi?: ClientApiCosts;
  files?: FilesPoint[];
  capturedFiles?: CapturedFiles[];
  installs?: InstallTime[];
}

/** The costs of an idle cluster, of single requests and of concurrent ones. Only the last have a baseline with bare `runsc`. */
async function clusterCosts(cluster: LocalCluster, context: LevelContext): Promise<ClusterCosts> {
  const { signal } = context;
  const { only, n, rounds } = context.options;
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
  if (only.has("claim")) {
    costs.claims = await measureClaims(cluster, n, signal);
    console.log(`\n${claimTable(costs.claims)}`);
  }
  if (only.has("recipe")) {
    costs.recipe = await measureRecipe(cluster, Math.min(n, 5), signal);
    console.log(`\n${recipeTable(costs.recipe)}`);
  }
  if (only.has("fork")) {
    costs.fork = await measureFork(context, cluster);
    console.log(`\n${forkTable(costs.fork)}`);
  }
  if (only.has("gateway")) {
    costs.gateway = await measureGateway(cluster, n, signal);
    console.log(`\n${gatewayTable(costs.gateway)}`);
  }
  if (only.has("volumes")) {
    costs.volumes = await measureVolumes(cluster, { n, rounds, snapshots: context.options.snapshots });
    console.log(`\n${volumesTable(costs.volumes)}`);
  }
  if (only.has("files")) {
    const { clones } = context.options;
    costs.files = await measureFiles(cluster, {
      n: Math.min(n, 10),
      clones,
      sizesMiB: n <= 5 ? [0, 64] : [0, 1_024, 4_096],
    });
    console.log(`\n${filesTable(costs.files)}`);
  }
  if (only.has("captured-files")) {
    costs.capturedFiles = await measureCapturedFiles(cluster, {
      n: Math.min(n, 10),
      sizesMiB: n <= 5 ? [0, 64] : [0, 1_024],
    });
    console.log(`\n${capturedTable(costs.capturedFiles)}`);
  }
  if (only.has("installs")) {
    costs.installs = await measureInstalls(cluster, n <= 5 ? 1 : Math.min(n, 5), signal);
    console.log(`\n${installsTable(costs.installs)}`);
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
