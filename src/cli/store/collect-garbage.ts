import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { sandboxClaimKind } from "../../api/kinds/sandbox-claim.ts";
import { type Holder, layersInUse, Storage } from "../../api/state/storage.ts";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import {
  collect,
  type Collectable,
  type CollectionState,
  defaultStepCacheBytes,
  type Garbage,
  readCollection,
} from "../../controllers/collect/garbage.ts";
import { planCollection, referencesOf } from "../../controllers/collect/plan-collection.ts";
import { livenessIn } from "../../controllers/sweep.ts";
import type { SweepReport, CheckpointStore } from "../../store/checkpoint-store.ts";
import { type Cluster, type ClusterOptions, withCluster } from "../cluster/cluster.ts";
import { exitCodes } from "../report-error.ts";
import { type Io, printLine, writeAll } from "../io.ts";
import { documentOf, inOrder, size, table } from "../output/render.ts";
import { keyOf } from "../../kube/object.ts";
import { coreResources } from "../../kube/resource-ref.ts";
import { boundStore, storeAt } from "../../store/store-at.ts";
import { isMissing, localStore, nameOfPlace, storePlace } from "./inspect.ts";

export interface CollectGarbageOptions extends ClusterOptions {
  dryRun?: boolean;
  allNamespaces?: boolean;
  /** For each namespace. @default 20 GiB */
  stepCacheBytes?: number;
  /** The store's directory or address. @default the local cluster's, if that is the cluster */
  storePath?: string;
  output: "table" | "json" | "yaml";
}

/**
 * `ramet gc`: deletes objects that nothing needs, as the controller does periodically, and sweeps the store if it is
 * reachable; with `dryRun` it only prints them. A failure is printed and does not stop the other deletions.
 */
export async function collectGarbage(io: Io, options: CollectGarbageOptions): Promise<number> {
  const { dryRun = false, allNamespaces = false, stepCacheBytes = defaultStepCacheBytes } = options;
  return withCluster(io, options, async (cluster) => {
    const opened = await openClusterStore(io, cluster, options);
    const from = collectable(cluster);
    const namespace = allNamespaces ? undefined : cluster.namespace;
    const state = await readCollection(from, { namespace, stepCacheBytes, now: io.clock.now(), signal: io.signal });
    const collected: CollectedGarbage[] = [];
    for (const garbage of planCollection(state)) {
      collected.push({ ...garbage, outcome: await outcomeOf(io, from, garbage, dryRun) });
    }
    const known = {
      store: { list: () => [...state.checkpoints] },
      resource: cluster.checkpoints,
      sandboxes: cluster.sandboxes,
    };
    const store = await swept(io, opened, {
      livenessOf: livenessIn(known, io.signal),
      olderThanMilliseconds,
      dryRun,
      signal: io.signal,
      ...defined({ namespace }),
    });
    const storage = storedBy(state, collected.filter(isCounted(dryRun)));
    await printReport(io, { collected, store, storage }, { ...options, where: namespace });
    const hasFailed = collected.some(({ outcome }) => outcome === "failed") || ("failed" in store && store.failed);
    return hasFailed ? exitCodes.failed : exitCodes.ok;
  });
}

async function printReport(
  io: Io,
  { collected, store, storage }: { collected: readonly CollectedGarbage[]; store: StoreOutcome; storage: KeptStorage },
  { output, dryRun = false, where }: CollectGarbageOptions & { where: string | undefined },
): Promise<void> {
  const items = inOrder(collected, (item) => item);
  const counted = items.filter(isCounted(dryRun));
  const { freedBytes: bytes, ...kept } = storage;
  const total = { objects: counted.length, bytes };
  if (output !== "table") {
    const shown = items.map(({ resourceVersion: _, ...item }) => item);
    await writeAll(io.stdout, documentOf({ dryRun, items: shown, total, ...kept, store }, output));
    return;
  }
  if (items.length > 0) {
    await writeAll(io.stdout, garbageTable(items, where === undefined));
    const objects = counted.length === 1 ? "1 object" : `${counted.length} objects`;
    printLine(io.stdout, `${dryRun ? "Would remove" : "Removed"} ${objects}, at most ${size(total.bytes)} of data.`);
  }
  const lost = "why" in store ? undefined : describeStore(store, dryRun);
  if (lost !== undefined) printLine(io.stdout, lost);
  else if (items.length === 0)
    printLine(io.stderr, `Nothing to delete in ${where === undefined ? "any namespace" : `namespace ${where}`}.`);
  if (dryRun && kept.kept.length > 0) await writeAll(io.stdout, keptTable(kept, where === undefined));
  printStoreNote(io, store);
}

function isCounted(dryRun: boolean): (one: CollectedGarbage) => boolean {
  return ({ outcome }) => outcome === (dryRun ? "planned" : "removed");
}

/** What the deletions free, and what holds the data that they do not free. */
interface KeptStorage {
  freedBytes: number;
  keptBytes: number;
  kept: KeptData[];
}

interface KeptData extends Holder {
  why: string;
}

function storedBy(state: CollectionState, deleted: readonly Garbage[]): KeptStorage {
  const { checkpoints, sandboxes, snapshots } = state;
  const { hasCheckpoint } = referencesOf(state);
  const byName = new Map(checkpoints.map((one) => [keyOf(one.metadata), one]));
  const uids = new Set(deleted.map(({ uid }) => uid));
  const kept = new Storage(checkpoints.filter(({ metadata }) => !uids.has(metadata.uid)));
  return {
    freedBytes: new Storage(checkpoints).freedBy(uids, layersInUse(sandboxes)),
    keptBytes: kept.usedWith(sandboxes),
    kept: kept
      .holders(snapshots)
      .map((holder) => ({ ...holder, why: whyKept(holder, byName.get(keyOf(holder)), hasCheckpoint) })),
  };
}

function whyKept(
  { kind }: Holder,
  checkpoint: Checkpoint | undefined,
  isNeeded: (checkpoint: Checkpoint) => boolean,
): string {
  if (kind === "snapshot") return "versions and cached steps";
  if (kind === "sandbox") return "the paused sandbox";
  if (checkpoint?.metadata.deletionTimestamp !== undefined) return "is being deleted";
  return checkpoint !== undefined && isNeeded(checkpoint)
    ? "another object refers to it"
    : "no object refers to it, delete it if you do not need it";
}

function keptTable({ keptBytes, kept }: Pick<KeptStorage, "keptBytes" | "kept">, withNamespace: boolean): string {
  const rows = kept
    .slice(0, mostShown)
    .map(({ namespace, kind, name, uniqueBytes, sharedBytes, why }) => [
      ...(withNamespace ? [namespace] : []),
      `${kind}/${name}`,
      size(uniqueBytes),
      size(sharedBytes),
      why,
    ]);
  const headings = [...(withNamespace ? ["NAMESPACE"] : []), "KEPT", "UNIQUE", "SHARED", "WHY"];
  const hidden = kept.length - rows.length;
  const more = hidden > 0 ? `${hidden} smaller ones are shown with -o json.\n` : "";
  return `${size(keptBytes)} of data is kept:\n${table(headings, rows)}${more}`;
}

const mostShown = 20;

function printStoreNote({ stderr }: Io, store: StoreOutcome): void {
  if ("why" in store) {
    const which = store.failed ? "not swept completely" : "not swept";
    const hint = store.failed ? "" : " (set --store-path to its directory)";
    printLine(stderr, `The store was ${which}: ${store.why}${hint}`);
  } else if (store.foreign.length > 0) {
    printLine(stderr, `Left alone in the store, because Ramet did not create it: ${store.foreign.join(", ")}`);
  }
}

async function outcomeOf(
  io: Io,
  from: Collectable,
  garbage: Garbage,
  dryRun: boolean,
): Promise<CollectedGarbage["outcome"]> {
  if (garbage.dueAt !== undefined) return "due";
  if (dryRun) return "planned";
  try {
    await collect(from, garbage, io.signal);
    return "removed";
  } catch (thrown) {
    if (io.signal.aborted) throw thrown;
    const error = RametError.from(thrown);
    // It is used again, or another collector deleted it: the next run sees its new state.
    if (error.code === "Conflict") return "changed";
    printLine(io.stderr, `${garbage.kind} ${garbage.namespace}/${garbage.name} was not deleted: ${error.describe()}`);
    return "failed";
  }
}

function collectable({ client, templates, checkpoints, sandboxes, sets, snapshots }: Cluster): Collectable {
  return { templates, checkpoints, sandboxes, sets, snapshots, claims: client.of(sandboxClaimKind) };
}

/** Describes in one sentence the data that was or would be removed from the store; undefined if nothing. */
function describeStore(
  { path, removedCheckpoints, removedContents, removedRests, freedBytes }: Swept,
  dryRun: boolean,
): string | undefined {
  const parts = [
    counted(removedCheckpoints.length, "checkpoint without an object", "checkpoints without an object"),
    counted(removedContents, "content that no checkpoint uses", "contents that no checkpoint uses"),
    counted(removedRests, "file of an interrupted operation", "files of interrupted operations"),
  ].filter((part) => part !== "");
  if (parts.length === 0) return undefined;
  return `The store ${path} ${dryRun ? "would lose" : "lost"} ${parts.join(", ")}: ${size(freedBytes)}.`;
}

function counted(count: number, one: string, many: string): string {
  if (count === 0) return "";
  return count === 1 ? `1 ${one}` : `${count} ${many}`;
}

/** `changed`: it has changed since it was read, and was kept. `due`: its own controller will delete it. */
interface CollectedGarbage extends Garbage {
  outcome: keyof typeof words;
}

const words = { planned: "goes", removed: "removed", changed: "has changed", failed: "failed", due: "due" };

function garbageTable(items: readonly CollectedGarbage[], withNamespace: boolean): string {
  const rows = items.map(({ namespace, kind, name, bytes, outcome, why }) => [
    ...(withNamespace ? [namespace] : []),
    kind,
    name,
    size(bytes),
    words[outcome],
    why,
  ]);
  return table([...(withNamespace ? ["NAMESPACE"] : []), "KIND", "NAME", "SIZE", "OUTCOME", "WHY"], rows);
}

type Swept = { path: string } & Omit<SweepReport, "keptCheckpoints">;

/** The data that was or would be removed from the store. `why`: it was not swept (`failed`: not completely). */
type StoreOutcome = Swept | { why: string; failed: boolean };

/** Sweeps the cluster's store as the leading controller does, or only reports what that would remove. */
async function swept(
  io: Io,
  opened: ClusterStore,
  options: Parameters<CheckpointStore["sweep"]>[0],
): Promise<StoreOutcome> {
  if ("why" in opened) return { why: opened.why, failed: false };
  try {
    const { keptCheckpoints: _, ...report } = await opened.store.sweep(options);
    return { path: opened.path, ...report };
  } catch (thrown) {
    if (io.signal.aborted) throw thrown;
    return { why: RametError.from(thrown).describe(), failed: true };
  }
}

/** As in the controller: by then every grant has expired, and every restore has opened its files. */
const olderThanMilliseconds = 3_600_000;

/** `why`: no store is reachable. */
export type ClusterStore = { path: string; store: CheckpointStore } | { why: string };

/**
 * The store of the command's cluster, if it is reachable: the one at `storePath`, a directory or an address, else the local
 * cluster's, if that is the cluster.
 *
 * @throws RametError if `storePath` is given: `NotFound`, `StoreOfAnotherCluster`, `StoreUnavailable`
 */
export async function openClusterStore(
  io: Io,
  cluster: Cluster,
  { storePath: path, kubeconfig }: { storePath?: string; kubeconfig?: string },
): Promise<ClusterStore> {
  const place = storePlace(path ?? localStore(io, kubeconfig));
  const root = nameOfPlace(place);
  if (isMissing(place)) {
    if (path === undefined) return { why: "it is not on this machine" };
    throw new RametError("NotFound", `Cannot find a store at ${root}`, { hint: "Correct --store-path" });
  }
  try {
    const store = await storeAt(place, { clock: io.clock });
    return { path: root, store: await ofCluster(io, cluster, { store, root }) };
  } catch (thrown) {
    const error = RametError.from(thrown);
    if (path !== undefined || error.code === "Canceled") throw error;
    return { why: error.message };
  }
}

/** Does not bind the store to the cluster: only a controller does that. */
async function ofCluster(
  io: Io,
  { client }: Cluster,
  { store, root }: { store: CheckpointStore; root: string },
): Promise<CheckpointStore> {
  const owner = await store.owner();
  const { metadata } = await client
    .resource(coreResources.namespaces)
    .get({ name: "kube-system" }, { signal: io.signal });
  if (owner === metadata.uid) return boundStore(store, metadata.uid);
  const whose = owner === undefined ? "not used by any cluster yet" : "another cluster's";
  throw new RametError("StoreOfAnotherCluster", `the store ${root} is ${whose}`, {
    hint: "Use the --store-directory or --store of this cluster's controller",
  });
}
