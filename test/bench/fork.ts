import { setTimeout as sleep } from "node:timers/promises";
import { openBareForks } from "./bare-forks.ts";
import { openClusterForks } from "./cluster-forks.ts";
import type { CpuAccount } from "./cpu-account.ts";
import { stopwatch, type LevelContext } from "./figure.ts";
import type { LocalCluster } from "./local-cluster.ts";
import type { Memory } from "./memory.ts";
import { summary, type Summary } from "./samples.ts";

/** Concurrent clones of one capture of a small process, and the same number of bare restores of one image in the same run. */
export interface Fork {
  clones: number;
  rounds: number;
  ramet: ForkCost;
  bare: ForkCost;
}

export interface ForkCost {
  /** From the first write, or the first `runsc`, until the last one has responded to an HTTP request; one value per round. */
  allMilliseconds: Summary;
  /** From the same moment until each one has responded; values of all rounds. */
  eachMilliseconds: Summary;
  /** The CPU time of all clones until the last one has responded; the mean of the rounds. */
  cpuSeconds?: number;
  /** The memory of one idle clone, by kind of process; the mean of the last round. */
  memory: Memory[];
}

/** One of the two alternating sides. */
export interface ForkSide {
  /** Preparation that is not measured. */
  round: (number: number, count: number) => Promise<ForkRound>;
  close: () => Promise<void>;
}

export interface ForkRound {
  /** Each creates one clone and resolves with its first response: the number of requests to it and its source. */
  starts: readonly (() => Promise<string>)[];
  /** Memory of each one. */
  memory: () => Promise<Memory[][]>;
  remove: () => Promise<void>;
}

/** The first round is a warm-up and is discarded. @throws Error if a program was started instead of cloned */
export async function measureFork(context: LevelContext, cluster: LocalCluster): Promise<Fork> {
  const { accounts, options, signal } = context;
  const { clones, n } = options;
  const rounds = Math.min(n, 3);
  await accounts.ramet?.join();
  const ramet = new ForkTurns(await openClusterForks(cluster, signal), accounts.ramet);
  await accounts.bare?.join();
  const bare = new ForkTurns(await openBareForks(context), accounts.bare);
  for (let round = 0; round <= rounds; round++) {
    for (const side of round % 2 === 0 ? [bare, ramet] : [ramet, bare]) {
      signal.throwIfAborted();
      await side.take(round, clones, round === rounds);
    }
    process.stderr.write(`\rfork of ${clones}: ${round}/${rounds} `);
  }
  process.stderr.write("\r\x1b[K");
  await ramet.close();
  await bare.close();
  return { clones, rounds, ramet: ramet.cost(), bare: bare.cost() };
}

class ForkTurns {
  readonly #side: ForkSide;
  readonly #account: CpuAccount | undefined;
  readonly #each: number[] = [];
  readonly #all: number[] = [];
  readonly #cpuSeconds: number[] = [];
  #memory: Memory[] = [];

  constructor(side: ForkSide, account: CpuAccount | undefined) {
    this.#side = side;
    this.#account = account;
  }

  async take(number: number, count: number, isLast: boolean): Promise<void> {
    await this.#account?.join();
    const { starts, memory, remove } = await this.#side.round(number, count);
    // The cleanup of the previous round and the start of the next spare cell must not be measured.
    await sleep(restMilliseconds);
    const before = await this.#account?.seconds();
    const elapsed = stopwatch();
    const each = await Promise.all(
      starts.map(async (start) => {
        const answer = await start();
        return { answer, milliseconds: elapsed() };
      }),
    );
    const after = await this.#account?.seconds();
    if (each.some(({ answer }) => Number(answer) < 2)) throw new Error("a program was started instead of cloned");
    if (isLast) {
      await sleep(restMilliseconds);
      this.#memory = meanOf(await memory());
    }
    await remove();
    if (number === 0) return;
    const milliseconds = each.map((one) => one.milliseconds);
    this.#each.push(...milliseconds);
    this.#all.push(Math.max(...milliseconds));
    if (before !== undefined && after !== undefined) this.#cpuSeconds.push(after - before);
  }

  cost(): ForkCost {
    const cpuSeconds = summary(this.#cpuSeconds)?.mean;
    return {
      allMilliseconds: summary(this.#all)!,
      eachMilliseconds: summary(this.#each)!,
      ...(cpuSeconds !== undefined && { cpuSeconds }),
      memory: this.#memory,
    };
  }

  close(): Promise<void> {
    return this.#side.close();
  }
}

const restMilliseconds = 5_000;

/** @throws Error if a part of a clone has no process */
function meanOf(all: readonly Memory[][]): Memory[] {
  return (all[0] ?? []).map(({ what }, part) => {
    const parts = all.map((memory) => memory[part]!);
    if (parts.some(({ processes }) => processes === 0)) throw new Error(`no process of ${what} was found`);
    const mean = (value: (memory: Memory) => number): number =>
      parts.reduce((total, memory) => total + value(memory), 0) / parts.length;
    return {
      what,
      processes: mean(({ processes }) => processes),
      rssMiB: mean(({ rssMiB }) => rssMiB),
      pssMiB: mean(({ pssMiB }) => pssMiB),
    };
  });
}
