import { backMemory } from "./backed-memory.ts";
import type { CleanUp } from "./clean-up.ts";
import type { CpuAccount } from "./cpu-account.ts";
import type { BenchOptions } from "./options.ts";
import { Samples } from "./samples.ts";

/** Milliseconds by measure, from one turn of one side. */
export type Measures = Record<string, number>;

export interface Accounts {
  ramet: CpuAccount | undefined;
  bare: CpuAccount | undefined;
}

export interface LevelContext {
  options: BenchOptions;
  accounts: Accounts;
  cleanUp: CleanUp;
  hugePages: boolean;
  rootPath: string;
  signal: AbortSignal;
  /** Receives each figure when it is complete. */
  report: (figure: Figure) => void;
}

/** One figure: Ramet and bare `runsc`, measured alternately in the same run. */
export interface Figure {
  name: string;
  level: "cell" | "cluster";
  sizeMiB: number;
  hugePages: boolean;
  ramet: Samples;
  bare: Samples;
  /** Pairs of measures to compare: Ramet's, bare's, and the maximum ratio. */
  ratios: { ramet: string; bare: string; limit?: number }[];
  /** Milliseconds that Ramet's measure of that name should not exceed at p50. */
  goals: Record<string, number>;
}

export interface Turns {
  n: number;
  accounts: Accounts;
  /** Each turn prepares, measures and cleans up. Only the work wrapped in `measured` counts. */
  ramet: (turn: number, measured: Measured) => Promise<Measures>;
  bare: (turn: number, measured: Measured) => Promise<Measures>;
  signal: AbortSignal;
}

/** Runs the measured part of a turn and adds its CPU time to the turn's measures. */
export type Measured = <T>(work: () => Promise<T>) => Promise<T>;

/**
 * Alternates the sides, so that other load on the machine affects both. The first turn is a warm-up and is discarded. Neither
 * side waits for the host's memory: twice the memory of a clone and its files is backed before.
 */
async function takeTurns(figure: Figure, { n, accounts, signal, ...sides }: Turns): Promise<void> {
  for (let turn = 0; turn <= n; turn++) {
    const order = turn % 2 === 0 ? (["bare", "ramet"] as const) : (["ramet", "bare"] as const);
    for (const side of order) {
      signal.throwIfAborted();
      const memoryBytes = 2 * figure.sizeMiB * 2 ** 20;
      const measures = await oneTurn(accounts[side], memoryBytes, (measured) => sides[side](turn, measured));
      if (turn > 0) figure[side].add(measures);
    }
    process.stderr.write(`\r${figure.name} ${figure.sizeMiB} MiB: ${turn}/${n} `);
  }
  process.stderr.write("\r\x1b[K");
}

/** Runs all turns of a level's figure, and reports it. */
export async function reportTurns(
  { options, accounts, signal, report }: LevelContext,
  figure: Figure,
  sides: Pick<Turns, "ramet" | "bare">,
): Promise<void> {
  await takeTurns(figure, { n: options.n, accounts, signal, ...sides });
  report(figure);
}

async function oneTurn(
  account: CpuAccount | undefined,
  memoryBytes: number,
  turn: (measured: Measured) => Promise<Measures>,
): Promise<Measures> {
  await account?.join();
  let cpuSeconds = 0;
  const measures = await turn(async (work) => {
    if (memoryBytes > 0) await backMemory(memoryBytes);
    const before = (await account?.seconds()) ?? 0;
    const result = await work();
    cpuSeconds += ((await account?.seconds()) ?? 0) - before;
    return result;
  });
  return account === undefined ? measures : { ...measures, "cpu seconds": cpuSeconds };
}

export function newFigure(figure: Omit<Figure, "ramet" | "bare" | "ratios" | "goals"> & Partial<Figure>): Figure {
  return { ratios: [], goals: {}, ramet: new Samples(), bare: new Samples(), ...figure };
}

/** The phases that a cell reports, as measures. */
export function phases(of: Measures | undefined): Measures {
  return Object.fromEntries(Object.entries(of ?? {}).map(([name, value]) => [`phase ${name}`, value]));
}

/** Milliseconds since the clock was created. */
export function stopwatch(): () => number {
  const start = performance.now();
  return () => performance.now() - start;
}
