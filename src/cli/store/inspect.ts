import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { isStoreAddress, nameOfStore, parseStoreAddress } from "../../api/store/store-address.ts";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import { clusterDirectory, defaultClusterName } from "../../local/cluster-directory.ts";
import type { CheckpointStore, Damage, ScrubReport, StoreUsage } from "../../store/checkpoint-store.ts";
import { storeAt, type StorePlace } from "../../store/store-at.ts";
import { selectedLocalCluster } from "../cluster/kubeconfig-source.ts";
import { exitCodes } from "../report-error.ts";
import { type Io, printLine } from "../io.ts";
import { inOrder, size, table } from "../output/render.ts";
import { startProgress } from "../wait/follow.ts";

export interface ScrubStoreOptions extends WhichStore {
  output: "table" | "json";
}

/** `ramet store scrub`: exits with 1 if anything is damaged. */
export async function scrubStore(io: Io, options: ScrubStoreOptions): Promise<number> {
  const { store, namespaces } = await openStore(io, options);
  const report = await store.scrub({
    ...defined({ namespace: options.namespace }),
    signal: io.signal,
    onProgress: progressOf(io, await bytesOf(store, namespaces)),
  });
  if (options.output === "json") printLine(io.stdout, JSON.stringify(report, undefined, 2));
  else printReport(io, report);
  return report.damaged.length === 0 ? exitCodes.ok : exitCodes.failed;
}

async function bytesOf(store: CheckpointStore, namespaces: readonly string[]): Promise<number> {
  let sum = 0;
  for (const namespace of namespaces) sum += (await store.usage(namespace)).contentBytes;
  return sum;
}

/** One line at each whole percent: a store can have many thousands of files. */
function progressOf(io: Io, totalBytes: number): (progress: { bytes: number }) => void {
  const show = startProgress(io);
  return ({ bytes }) => {
    const percent = totalBytes === 0 ? 100 : Math.min(100, Math.floor((100 * bytes) / totalBytes));
    show(`${percent} % of ${size(totalBytes)} read`);
  };
}

function printReport(io: Io, { checkpoints, bytes, damaged }: ScrubReport): void {
  const ordered = inOrder(damaged, ({ namespace, checkpointId: name }) => ({ namespace, name }));
  if (damaged.length > 0)
    io.stdout.write(table(["NAMESPACE", "CHECKPOINT", "FILE", "DAMAGE"], ordered.map(damageCells)));
  const ids = new Set(damaged.map(({ namespace, checkpointId }) => `${namespace}/${checkpointId}`));
  const outcome = damaged.length === 0 ? "nothing is damaged" : `${ids.size} damaged`;
  printLine(io.stderr, `${checkpoints} checkpoints, ${size(bytes)} read: ${outcome}`);
  if (damaged.length > 0) printLine(io.stderr, whatToDo);
}

function damageCells({ namespace, checkpointId, file, reason }: Damage): string[] {
  return [namespace, checkpointId, file ?? "manifest.json", reason];
}

const whatToDo = `Do not restore a damaged checkpoint. For each, restore the file from a backup, or delete it with
ramet checkpoint rm <checkpoint> -n <namespace> and create another one; sandboxes that were cloned from it are not affected.
Check the disk first: stored data never changes.`;

export interface StoreUsageOptions extends WhichStore {
  output: "table" | "json";
}

export async function storeUsage(io: Io, options: StoreUsageOptions): Promise<number> {
  const { store, root, namespaces } = await openStore(io, options);
  const rows: ({ namespace: string } & StoreUsage)[] = [];
  for (const namespace of namespaces) rows.push({ namespace, ...(await store.usage(namespace)) });
  if (options.output === "json") {
    const cluster = await store.owner();
    printLine(io.stdout, JSON.stringify(defined({ path: root, cluster, namespaces: rows }), undefined, 2));
  } else {
    io.stdout.write(table(["NAMESPACE", "CHECKPOINTS", "CONTENTS", "SIZE", "SHARED", "STAGING"], rows.map(usageCells)));
  }
  return exitCodes.ok;
}

function usageCells({ namespace, ...usage }: { namespace: string } & StoreUsage): string[] {
  const { checkpoints, contents, contentBytes, sharedBytes, stagingBytes } = usage;
  return [namespace, `${checkpoints}`, `${contents}`, size(contentBytes), size(sharedBytes), size(stagingBytes)];
}

interface WhichStore {
  /** A directory or an address. */
  path?: string;
  /** The local cluster's name, used without a path. @default the cluster of KUBECONFIG, else the default cluster */
  name?: string;
  namespace?: string;
}

/**
 * Opens the store of a command directly, on the disk or in a bucket. No cluster needs to run.
 *
 * @throws RametError `NotFound` if the directory does not exist or has no data of the namespace
 */
async function openStore(
  io: Io,
  { path, name, namespace }: WhichStore,
): Promise<{ store: CheckpointStore; root: string; namespaces: string[] }> {
  const place = storePlace(
    path ?? (name === undefined ? localStore(io) : clusterDirectory(name, io.environment).store),
  );
  const root = nameOfPlace(place);
  if (isMissing(place)) {
    throw new RametError("NotFound", `Cannot find a store at ${root}`, {
      hint: path === undefined ? "Run `ramet local up`, or set --path to a directory" : "Correct --path",
    });
  }
  const store = await storeAt(place);
  const all = await store.namespaces();
  if (path !== undefined && all.length === 0 && (await store.owner()) === undefined) {
    throw new RametError(
      "NotFound",
      `Cannot find a store at ${root}: it has neither a store.json nor data of a namespace`,
      { hint: "Correct --path" },
    );
  }
  if (namespace === undefined) return { store, root, namespaces: all };
  if (all.includes(namespace)) return { store, root, namespaces: [namespace] };
  throw new RametError("NotFound", `The store ${root} has no data of the namespace ${namespace}`, {
    hint: all.length === 0 ? "Create a checkpoint first: the store is empty" : `Choose one of: ${all.join(", ")}`,
  });
}

/** The directory of the store of the local cluster that a kubeconfig selects, else of the default local cluster. */
export function localStore({ environment }: Io, kubeconfig?: string): string {
  return clusterDirectory(selectedLocalCluster(environment, kubeconfig) ?? defaultClusterName, environment).store;
}

/** Parses an address or a directory. */
export function storePlace(text: string): StorePlace {
  return isStoreAddress(text) ? parseStoreAddress(text) : { directory: resolve(text) };
}

/** Whether a directory does not exist. Always false for an address. */
export function isMissing(place: StorePlace): boolean {
  return "directory" in place && !existsSync(place.directory);
}

/** A readable name: a directory's path, or an address without its parameters. */
export function nameOfPlace(place: StorePlace): string {
  return "directory" in place ? place.directory : nameOfStore(place);
}
