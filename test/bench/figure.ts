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
  /** Gets each figure as soon as it has been taken. */
  report: (figure: Figure) => void;
}

/** One figure: what Ramet needed and, in the same run and turn about, what bare `runsc` needed for the same. */
export interface Figure {
  name: string;
  level: "cell" | "cluster";
  sizeMiB: number;
  hugePages: boolean;
  ramet: Samples;
  bare: Samples;
  /** Pairs of measures whose ratio is the figure's point: Ramet's, bare's, and the limit that is asked. */
  ratios: { ramet: string; bare: string; limit?: number }[];
  /** Milliseconds that Ramet's measure of that name should not exceed at p50. */
  goals: Record<string, number>;
}

export interface Turns {
  n: number;
  accounts: Accounts;
  /** Each prepares, measures and cleans up by itself; only what it wraps in `measured` counts. */
  ramet: (turn: number, measured: Measured) => Promise<Measures>;
  bare: (turn: number, measured: Measured) => Promise<Measures>;
  signal: AbortSignal;
}

/** Runs the part of a turn that counts and adds its CPU time to the turn's measures. */
export type Measured = <T>(work: () => Promise<T>) => Promise<T>;

/**
 * Takes turns, so that whatever else happens on the machine meets both sides alike; the first turn warms up and is dropped. Neither
 * waits for the host's memory: what a clone and its files take is there, twice over.
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

/** Takes all turns of a level's figure, and reports it. */
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

/** The phases that a cell tells, as measures. */
export function phases(of: Measures | undefined): Measures {
  return Object.fromEntries(Object.entries(of ?? {}).map(([name, value]) => [`phase ${name}`, value]));
}

/** Milliseconds since the clock was made. */
export function stopwatch(): () => number {
  const start = performance.now();
  return () => performance.now() - start;
}
