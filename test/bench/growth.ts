import { readdir } from "node:fs/promises";
import { memoryOf } from "./memory.ts";
import { countOrphans, type Orphans } from "./orphans.ts";
import { partNames, type LocalCluster, type PartName } from "./local-cluster.ts";

/** The state of an idle cluster after a number of rounds. */
export interface GrowthPoint {
  round: number;
  /** Resident memory of each part, MiB. */
  memoryMiB: Record<PartName, number>;
  openFiles: Record<PartName, number>;
  left: Orphans;
}

/** Creates, checkpoints, clones and deletes in rounds, and measures the idle cluster between them. */
export async function measureGrowth(
  cluster: LocalCluster,
  { rounds, signal }: { rounds: number; signal: AbortSignal },
): Promise<GrowthPoint[]> {
  // The first rounds fill caches and pools and do not count.
  for (let round = 0; round < 3; round++) await oneRound(cluster, `warm-${round}`);
  const points: GrowthPoint[] = [];
  // This takes long: an interrupted run still reports its previous rounds.
  const look = async (round: number): Promise<void> => {
    const point = await idlePoint(cluster, round);
    points.push(point);
    process.stderr.write(`\r\x1b[K${describe(point)}\n`);
  };
  await look(0);
  const every = Math.max(1, Math.ceil(rounds / 10));
  for (let round = 1; round <= rounds; round++) {
    signal.throwIfAborted();
    await oneRound(cluster, `round-${round}`);
    if (round % every === 0 || round === rounds) await look(round);
    process.stderr.write(`\rgrowth: round ${round}/${rounds} `);
  }
  process.stderr.write("\r\x1b[K");
  return points;
}

function describe({ round, memoryMiB: { controller, node }, left }: GrowthPoint): string {
  const memory = `controller ${controller.toFixed(1)} MiB, node ${node.toFixed(1)} MiB`;
  return `growth: after round ${round}: ${memory}, ${left.processes} processes, ${left.mounts} mounts, ${left.files} files`;
}

async function oneRound(cluster: LocalCluster, name: string): Promise<void> {
  const { sandboxes, checkpoints } = cluster.cluster;
  const source = await cluster.createSandbox({ name });
  const checkpoint = await cluster.createCheckpoint(name, name);
  const { checkpointId } = checkpoint.status ?? {};
  const clone = await cluster.createSandbox({ name: `${name}-clone`, checkpointId });
  await Promise.all([
    cluster.remove(sandboxes, source),
    cluster.remove(sandboxes, clone),
    cluster.remove(checkpoints, checkpoint),
  ]);
}

async function idlePoint(cluster: LocalCluster, round: number): Promise<GrowthPoint> {
  // The next spare cell has started by then.
  await new Promise((resolve) => setTimeout(resolve, 5_000));
  const each = async (value: (pid: number) => Promise<number>): Promise<Record<PartName, number>> => {
    const entries = partNames.map(async (name) => [name, await value(cluster.part(name) ?? 0)] as const);
    return Object.fromEntries(await Promise.all(entries)) as Record<PartName, number>;
  };
  return {
    round,
    memoryMiB: await each(async (pid) => (await memoryOf("", [pid])).rssMiB),
    openFiles: await each(async (pid) => (await readdir(`/proc/${pid}/fd`).catch(() => [])).length),
    left: await countOrphans(cluster.dataDirectory),
  };
}
