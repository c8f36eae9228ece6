import type { Checkpoint } from "../../src/api/kinds/checkpoint.ts";
import type { Sandbox } from "../../src/api/kinds/sandbox.ts";
import { controllerCounters, countedBetween, type Counters } from "./controller-metrics.ts";
import type { LocalCluster } from "./local-cluster.ts";

/** The cost of an operation for the API server and the controllers. */
export interface Spent {
  /** All writes of the controller process, by verb and resource, without the node's and the user's. */
  writes: Record<string, number>;
  /** By controller. */
  reconciles: Record<string, number>;
}

/** The cost of one request. */
export interface Writes extends Spent {
  request: "sandbox" | "checkpoint" | "clone";
  n: number;
}

/** Counts over `n` sequential requests, each until its effects have settled. */
export async function measureWrites(cluster: LocalCluster, n: number, signal: AbortSignal): Promise<Writes[]> {
  const sandboxes: Sandbox[] = [];
  const checkpoints: Checkpoint[] = [];
  const turns = async (request: Writes["request"], turn: (number: number) => Promise<unknown>): Promise<Writes> => {
    const before = await settledCounters(cluster);
    for (let number = 0; number < n; number++) {
      signal.throwIfAborted();
      await turn(number);
    }
    return { request, n, ...spentBetween(before, await settledCounters(cluster), n) };
  };
  const results = [
    await turns("sandbox", async (number) => {
      sandboxes.push(await cluster.createSandbox({ name: `writes-${number}` }));
    }),
    await turns("checkpoint", async (number) => {
      checkpoints.push(await cluster.createCheckpoint(`writes-${number}`, `writes-${number}`));
    }),
    await turns("clone", async (number) => {
      const { checkpointId } = checkpoints[number]?.status ?? {};
      sandboxes.push(await cluster.createSandbox({ name: `writes-clone-${number}`, checkpointId }));
    }),
  ];
  for (const checkpoint of checkpoints) await cluster.remove(cluster.cluster.checkpoints, checkpoint);
  for (const sandbox of sandboxes) await cluster.remove(cluster.cluster.sandboxes, sandbox);
  return results;
}

/** Reads until two readings count the same reconciles. The interval is longer than any reconcile. */
export async function settledCounters(cluster: LocalCluster): Promise<Counters> {
  const read = (): Promise<Counters> => controllerCounters(cluster.part("controller") ?? 0);
  for (let before = await read(); ;) {
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    const after = await read();
    if (countedBetween(before, after, reconciles).size === 0) return after;
    before = after;
  }
}

const reconciles = "ramet_reconciles_total";

/** The difference of two readings, divided by `n` requests. */
export function spentBetween(before: Counters, after: Counters, n = 1): Spent {
  const byName = (name: string, label: (labels: string) => string | undefined): Record<string, number> => {
    const sums: Record<string, number> = {};
    for (const [labels, count] of countedBetween(before, after, name)) {
      const key = label(labels);
      if (key !== undefined) sums[key] = (sums[key] ?? 0) + count / n;
    }
    return sums;
  };
  const value = (labels: string, name: string): string => new RegExp(`${name}="([^"]*)"`).exec(labels)?.[1] ?? "";
  return {
    writes: byName("ramet_api_requests_total", (labels) => {
      const verb = value(labels, "verb");
      if (["get", "list", "watch"].includes(verb)) return undefined;
      const subresource = value(labels, "subresource");
      return `${verb} ${value(labels, "resource")}${subresource === "" ? "" : `/${subresource}`}`;
    }),
    reconciles: byName(reconciles, (labels) => value(labels, "controller")),
  };
}
