import { writeFile } from "node:fs/promises";
import { acquireTools } from "../../src/local/tools/acquire-tools.ts";
import { pythonRootPath } from "../setup/python-image.ts";
import { cellLevel } from "./cell-level.ts";
import { CleanUp } from "./clean-up.ts";
import { CpuAccount } from "./cpu-account.ts";
import type { Figure } from "./figure.ts";
import { allowHugePages } from "./huge-pages.ts";
import { describeMachine } from "./machine.ts";
import { benchOptions, usage, type BenchOptions } from "./options.ts";
import { figureTable, machineLines } from "./report.ts";

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
  }
  if (options.json !== undefined)
    await writeFile(
      options.json,
      JSON.stringify({ machine, options: plain(options), figures: figures.map(plainFigure) }, null, 2),
    );
  return 0;
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
