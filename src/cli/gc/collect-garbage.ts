import { stringify } from "yaml";
import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { SandboxClaim, sandboxClaimKind } from "../../api/kinds/sandbox-claim.ts";
import { RametError } from "../../base/errors.ts";
import { collect, type Collectable, readCollection } from "../../controllers/collect/collectable.ts";
import { defaultStepCacheBytes, type Garbage } from "../../controllers/collect/garbage.ts";
import { planCollection } from "../../controllers/collect/plan-collection.ts";
import { livenessIn } from "../../controllers/sweep.ts";
import type { SweepReport } from "../../store/checkpoint-store.ts";
import { type Cluster, type ClusterOptions, refOf, withCluster } from "../cluster/cluster.ts";
import { exitCodes } from "../exit-codes.ts";
import { type Io, printLine, writeAll } from "../io.ts";
import { size, table } from "../output/table.ts";
import { type ClusterStore, openClusterStore } from "./open-cluster-store.ts";

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

/** What the store lost or would lose, in one sentence; undefined where that is nothing. */
function describeStore(
  { path, removedCheckpoints, removedContents, removedRests, freedBytes }: { path: string } & SweepReport,
  dryRun: boolean,
): string | undefined {
  const parts = [
    counted(removedCheckpoints.length, "checkpoint that has no object", "checkpoints that have no object"),
    counted(removedContents, "content that no checkpoint names", "contents that no checkpoint names"),
    counted(removedRests, "rest of what was interrupted", "rests of what was interrupted"),
  ].filter((part) => part !== "");
  if (parts.length === 0) return undefined;
  return `The store ${path} ${dryRun ? "would lose" : "lost"} ${parts.join(", ")}: ${size(freedBytes)}.`;
}

function counted(count: number, one: string, many: string): string {
  if (count === 0) return "";
  return count === 1 ? `1 ${one}` : `${count} ${many}`;
}

type GarbageOutput = "table" | "json" | "yaml";

/** `changed`: it is not as it was when it was looked at, and was left alone. `due`: its own controller will delete it. */
interface Told extends Garbage {
  outcome: "planned" | "removed" | "changed" | "failed" | "due";
}

interface RenderGarbageOptions {
  output: GarbageOutput;
  dryRun: boolean;
  /** Stands in documents alone. */
  store: StoreTold;
  withNamespace: boolean;
}

/** What goes or went and why, and how much that is together. */
function renderGarbage(told: readonly Told[], { output, dryRun, store, withNamespace }: RenderGarbageOptions): string {
  const counted = told.filter(({ outcome }) => outcome === (dryRun ? "planned" : "removed"));
  const total = { objects: counted.length, bytes: counted.reduce((sum, { bytes = 0 }) => sum + bytes, 0) };
  if (output !== "table") {
    const document = { dryRun, items: told.map(shown), total, store };
    return output === "json" ? `${JSON.stringify(document, undefined, 2)}\n` : stringify(document);
  }
  const headings = ["KIND", "NAME", "SIZE", "OUTCOME", "WHY"];
  const rows = told.map(({ kind, name, bytes, outcome, why }) => [kind, name, size(bytes), words[outcome], why]);
  const lines = withNamespace
    ? table(
        ["NAMESPACE", ...headings],
        rows.map((row, index) => [told[index]?.namespace ?? "", ...row]),
      )
    : table(headings, rows);
  const objects = total.objects === 1 ? "1 object" : `${total.objects} objects`;
  return `${lines}${dryRun ? "Would remove" : "Removed"} ${objects}, at most ${size(total.bytes)} of data.\n`;
}

const words: Readonly<Record<Told["outcome"], string>> = {
  planned: "goes",
  removed: "removed",
  changed: "has changed",
  failed: "failed",
  due: "due",
};

function shown({ resourceVersion: _, ...item }: Told): object {
  return item;
}

interface SweepStoreOptions {
  dryRun: boolean;
  /** @default all */
  namespace: string | undefined;
  /** As the API had them. */
  checkpoints: readonly Checkpoint[];
}

/** What the store lost or would lose. `why`: it was not looked at, or not to the end, and `failed` says which. */
type StoreTold = ({ path: string } & SweepReport) | { why: string; failed: boolean };

/** Sweeps the cluster's store as the controller that leads does, or only says what that would remove. */
async function sweepStore(
  io: Io,
  cluster: Cluster,
  found: ClusterStore,
  { dryRun, namespace, checkpoints }: SweepStoreOptions,
): Promise<StoreTold> {
  if ("why" in found) return { why: found.why, failed: false };
  const known = { store: { list: () => [...checkpoints] }, resource: cluster.checkpoints };
  try {
    const report = await found.store.sweep({
      standing: livenessIn(known, io.signal),
      olderThanMilliseconds,
      dryRun,
      signal: io.signal,
      ...(namespace !== undefined && { namespace }),
    });
    return { path: found.path, ...report };
  } catch (thrown) {
    if (io.signal.aborted) throw thrown;
    return { why: RametError.from(thrown).describe(), failed: true };
  }
}

/** As the controller has it: by then every grant has expired, and every restore has opened its files. */
const olderThanMilliseconds = 3_600_000;
