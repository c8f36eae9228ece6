import * as z from "zod";
import type { Grant } from "../api/wire/grant.ts";
import { canonicalJson } from "../base/canonical-json.ts";
import { RametError } from "../base/errors.ts";
import { type CheckpointRef, checkedNamespace, checkedRef } from "./checkpoint-id.ts";
import type { Manifest } from "./manifest.ts";
import type { PublishedCheckpoint } from "./sessions.ts";
import { guarded } from "./store-error.ts";

/**
 * The store as the controllers use it. Cells have no access to it: a cell receives a grant for one checkpoint and opens that
 * checkpoint with `openForWrite` or `openForRead`. Every driver passes the contract suite in `test/contract/store`.
 */
export interface CheckpointStore {
  /**
   * Binds the store to one cluster permanently. Without this, the sweep of another cluster would remove all checkpoints,
   * because their objects do not exist there.
   * @throws RametError `StoreOfAnotherCluster` when the store is bound to another cluster, `StoreUnavailable`, `StoreReadOnly`
   */
  bind(cluster: string): Promise<void>;
  /** Returns the cluster that the store is bound to, or undefined if it is not bound. */
  owner(): Promise<string | undefined>;
  /** Creates a grant to write one checkpoint. Prepares the namespace in the store if necessary. */
  grantWrite(request: CheckpointRef & { ttlMilliseconds: number }): Promise<Grant>;
  /** Creates a grant to read one checkpoint. It is valid only for the manifest with this digest. */
  grantRead(request: CheckpointRef & { manifestDigest: string; ttlMilliseconds: number }): Promise<Grant>;
  /**
   * Reads a manifest.
   * @param request.isAdopted whether only the store says that a cell has published it, and nothing has recorded its digest
   * @throws RametError `CheckpointLost`, `CheckpointTooNew`
   */
  manifest(request: CheckpointRef & { digest: string; isAdopted?: boolean }): Promise<Manifest>;
  /** Finds the checkpoint that is published under an id, so that a retry detects an earlier success. */
  find(ref: CheckpointRef): Promise<PublishedCheckpoint | undefined>;
  has(ref: CheckpointRef): Promise<boolean>;
  /**
   * Removes a checkpoint and its unshared content. Succeeds if the checkpoint does not exist. Restores in progress are not
   * affected.
   */
  remove(ref: CheckpointRef): Promise<Removal>;
  /** Removes orphans: data of crashed operations and of deleted objects. With `dryRun`, only reports them. */
  sweep(options: SweepOptions): Promise<SweepReport>;
  /** Verifies the hashes of all content in one or all namespaces and reports damage. Changes nothing. */
  scrub(options?: ScrubOptions): Promise<ScrubReport>;
  /** Lists the namespaces that have data in the store, sorted. */
  namespaces(): Promise<string[]>;
  usage(namespace: string): Promise<StoreUsage>;
  /** Checks the store by a test write. Reports `StoreUnavailable`, `StoreReadOnly` or `StoreFull` as the problem. */
  probe(): Promise<StoreHealth>;
}

export interface Removal {
  removed: boolean;
  /** Does not include content that a restore in progress uses. A later sweep frees that content. */
  freedBytes: number;
}

/**
 * The state of a checkpoint's object in the Kubernetes API. `unfinished`: not in a final phase. `finished`: in a final phase.
 * `absent`: the object does not exist.
 */
export type CheckpointLiveness = "unfinished" | "finished" | "absent";

export interface SweepOptions {
  /** Called right before each removal. Must throw if the state is unknown: the sweep then stops without a loss. */
  livenessOf(ref: CheckpointRef): Promise<CheckpointLiveness>;
  /** The minimum age of removed data. Must exceed the longest lifetime of a grant. */
  olderThanMilliseconds: number;
  /** Limits the sweep to one namespace. @default all namespaces */
  namespace?: string;
  /** Removes nothing, and reports what a sweep would remove. @default false */
  dryRun?: boolean;
  signal?: AbortSignal;
}

export interface SweepReport {
  /** Published checkpoints whose object does not exist. */
  removedCheckpoints: CheckpointRef[];
  /** The other published checkpoints. */
  keptCheckpoints: CheckpointRef[];
  /** The number of unpublished attempts, unreleased restores and unfinished removals. */
  removedRests: number;
  /** The number of files that no checkpoint refers to. */
  removedContents: number;
  freedBytes: number;
  /** Paths in the store that Ramet did not create. The sweep ignores them. */
  foreign: string[];
}

export function newSweepReport(foreign: string[]): SweepReport {
  const counts = { removedRests: 0, removedContents: 0, freedBytes: 0 };
  return { removedCheckpoints: [], keptCheckpoints: [], ...counts, foreign };
}

export interface ScrubOptions {
  namespace?: string;
  signal?: AbortSignal;
  /** Called before each file is hashed. `bytes` is the number of bytes hashed so far. */
  onProgress?: (progress: { bytes: number; ref: CheckpointRef; file: string }) => void;
}

export interface ScrubReport {
  checkpoints: number;
  /** The number of hashed bytes. Shared content counts once. */
  bytes: number;
  damaged: Damage[];
}

export interface Damage extends CheckpointRef {
  /** The damaged file. Absent if the manifest is damaged. */
  file?: string;
  reason: string;
}

export interface StoreUsage {
  checkpoints: number;
  /** The number of their files. Shared files count once. */
  contents: number;
  /** The size of all published content. Shared content counts once. */
  contentBytes: number;
  sharedBytes: number;
  /** The size of data that is being written or waits for a sweep. */
  stagingBytes: number;
}

export interface StoreHealth {
  problem?: RametError;
  /** Absent if the driver cannot determine it. */
  freeBytes?: number;
}

/** The part of a store that differs between drivers. Its arguments are valid. */
interface StoreDriver extends Omit<CheckpointStore, "bind" | "has" | "scrub"> {
  name: string;
  /** Where the owner is recorded, for messages. */
  ownerPath: string;
  /** Records the owner, unless there is one. Of two clusters that try this at the same time, one succeeds. */
  claim(cluster: string): Promise<void>;
  scrub(options: ScrubOptions): Promise<ScrubReport>;
}

/** Makes a store of a driver: validates arguments, and converts errors of system calls. */
export function storeOf(driver: StoreDriver): CheckpointStore {
  const { name } = driver;
  const ofStore = <T>(what: string, run: () => Promise<T>) => guarded(`${what} the store ${name}`, run);
  const ofCheckpoint =
    <R extends CheckpointRef, T>(what: string, run: (request: R) => Promise<T>) =>
    (request: R) =>
      guarded(`${what} checkpoint ${request.checkpointId}`, () => run({ ...request, ...checkedRef(request) }));
  const find = ofCheckpoint("finding", (ref: CheckpointRef) => driver.find(ref));

  async function bind(cluster: string): Promise<void> {
    if ((await driver.owner()) === undefined) await driver.claim(cluster);
    const owner = await driver.owner();
    if (owner !== cluster) throw anotherCluster(name, { owner, cluster, path: driver.ownerPath });
  }

  return {
    bind: (cluster) => ofStore("binding", () => bind(cluster)),
    owner: () => ofStore("reading the owner of", () => driver.owner()),
    grantWrite: ofCheckpoint("creating a write grant for", (request) => driver.grantWrite(request)),
    grantRead: ofCheckpoint("creating a read grant for", (request) => driver.grantRead(request)),
    manifest: ofCheckpoint("reading the manifest of", (request) => driver.manifest(request)),
    find,
    has: async (ref) => (await find(ref)) !== undefined,
    remove: ofCheckpoint("removing", (ref) => driver.remove(ref)),
    sweep: (options) => ofStore("sweeping", () => driver.sweep(options)),
    scrub: (options = {}) => ofStore("scrubbing", () => driver.scrub(options)),
    namespaces: () => ofStore("listing the namespaces of", () => driver.namespaces()),
    usage: (namespace) =>
      guarded(`measuring the usage of namespace ${namespace}`, () => driver.usage(checkedNamespace(namespace))),
    probe: () => driver.probe(),
  };
}

/** The file or object that records which cluster the store belongs to. */
export const ownerFile = "store.json";

const Owner = z.object({ v: z.literal(1), cluster: z.string().min(1) });

export function encodeOwner(cluster: string): Buffer {
  return Buffer.from(canonicalJson({ v: 1, cluster }));
}

/** Returns the cluster. @throws RametError `StoreUnavailable` if `bytes` are not valid */
export function decodeOwner(bytes: Buffer, store: string): string {
  try {
    return Owner.parse(JSON.parse(bytes.toString("utf8"))).cluster;
  } catch (error) {
    throw new RametError("StoreUnavailable", `cannot use ${store}: ${ownerFile} is not valid`, {
      hint: `Restore the file: {"cluster":"<UID of the namespace kube-system>","v":1}`,
      cause: error,
    });
  }
}

/** The error for a store of another cluster. `path` is the location of the owner file. */
function anotherCluster(
  store: string,
  whose: { owner: string | undefined; cluster: string; path: string },
): RametError {
  const { owner, cluster, path } = whose;
  return new RametError(
    "StoreOfAnotherCluster",
    `cannot open the store ${store}: it belongs to the cluster ${owner}, but this is the cluster ${cluster}`,
    {
      hint: `Configure a separate store for this cluster; if the other cluster no longer exists, delete ${path}, and Ramet will remove all checkpoints that are unknown to this cluster`,
    },
  );
}
