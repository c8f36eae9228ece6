import { sandboxClaimKind, SandboxClaim } from "../../api/kinds/sandbox-claim.ts";
import { RametError } from "../../base/errors.ts";
import { collect, readCollection, type Collectable } from "../../controllers/collect/collectable.ts";
import { defaultStepCacheBytes, type Garbage } from "../../controllers/collect/garbage.ts";
import { planCollection } from "../../controllers/collect/plan-collection.ts";
import { refOf, withCluster, type Cluster, type ClusterOptions } from "../cluster/cluster.ts";
import { exitCodes } from "../exit-codes.ts";
import { printLine, writeAll, type Io } from "../io.ts";
import { describeStore } from "./describe-store.ts";
import { openClusterStore } from "./open-cluster-store.ts";
import { renderGarbage, type GarbageOutput, type Told } from "./render-garbage.ts";
import { sweepStore, type StoreTold } from "./sweep-store.ts";

export interface CollectGarbageOptions extends ClusterOptions {
  dryRun?: boolean;
  allNamespaces?: boolean;
  /** For each namespace. @default 20 GiB */
  stepCacheBytes?: number;
  /** The store's folder or address. @default that of the local cluster, where that is the cluster */
  storePath?: string;
  output: GarbageOutput;
}

/**
 * `ramet gc`: deletes what nobody needs, as the controller would at its next turn, and sweeps the store if it is within reach;
 * with `dryRun` it only says so. What cannot be deleted is told, and the rest still goes.
 */
export async function collectGarbage(io: Io, options: CollectGarbageOptions): Promise<number> {
  const { dryRun = false, allNamespaces = false, stepCacheBytes = defaultStepCacheBytes, storePath } = options;
  return withCluster(io, options, async (cluster) => {
    const found = await openClusterStore(io, cluster, storePath);
    const from = collectable(cluster);
    const namespace = allNamespaces ? undefined : cluster.namespace;
    const state = await readCollection(from, { namespace, stepCacheBytes, signal: io.signal });
    const told: Told[] = [];
    for (const garbage of planCollection(state)) {
      told.push(dryRun ? onlyTold(garbage) : await remove(io, from, garbage));
    }
    const store = await sweepStore(io, cluster, found, { dryRun, namespace, checkpoints: state.checkpoints });
    await tell(
      io,
      { told, store, where: namespace === undefined ? "any namespace" : `namespace ${namespace}` },
      options,
    );
    const hasFailed = told.some(({ outcome }) => outcome === "failed") || ("failed" in store && store.failed);
    return hasFailed ? exitCodes.failed : exitCodes.ok;
  });
}

async function tell(
  io: Io,
  { told, store, where }: { told: readonly Told[]; store: StoreTold; where: string },
  { output, dryRun = false, allNamespaces = false }: CollectGarbageOptions,
): Promise<void> {
  const lost = "why" in store ? undefined : describeStore(store, dryRun);
  if (output !== "table" || told.length > 0) {
    await writeAll(io.stdout, renderGarbage(told, { output, dryRun, store, withNamespace: allNamespaces }));
  } else if (lost === undefined) printLine(io.stderr, `Nothing is to be removed in ${where}.`);
  if (output !== "table") return;
  if (lost !== undefined) printLine(io.stdout, lost);
  if ("why" in store) printLine(io.stderr, notLookedAt(store));
  else if (store.foreign.length > 0) {
    printLine(io.stderr, `In the store and not Ramet's, left alone: ${store.foreign.join(", ")}`);
  }
}

function notLookedAt({ why, failed }: { why: string; failed: boolean }): string {
  if (failed) return `The store was not swept to the end: ${why}`;
  return `Nothing was looked for in the store: ${why} (--store-path names its folder).`;
}

function onlyTold(garbage: Garbage): Told {
  return { ...garbage, outcome: garbage.dueAt === undefined ? "planned" : "due" };
}

async function remove(io: Io, from: Collectable, garbage: Garbage): Promise<Told> {
  if (garbage.dueAt !== undefined) return { ...garbage, outcome: "due" };
  try {
    await collect(from, garbage, io.signal);
    return { ...garbage, outcome: "removed" };
  } catch (thrown) {
    if (io.signal.aborted) throw thrown;
    const error = RametError.from(thrown);
    // Somebody uses it, or another collector was faster: what it is now, the next run will see.
    if (error.code === "Conflict") return { ...garbage, outcome: "changed" };
    printLine(io.stderr, `${garbage.kind} ${garbage.namespace}/${garbage.name} was not removed: ${error.describe()}`);
    return { ...garbage, outcome: "failed" };
  }
}

function collectable({ client, templates, checkpoints, sandboxes, sets, snapshots }: Cluster): Collectable {
  const claims = client.resource(refOf(sandboxClaimKind), (value) => SandboxClaim.parse(value));
  return { templates, checkpoints, sandboxes, sets, snapshots, claims };
}
