import { randomBytes } from "node:crypto";
import { link, readdir, rm, statfs } from "node:fs/promises";
import { join } from "node:path";
import type { DirectoryGrant } from "../../api/wire/grant.ts";
import { type Clock, systemClock } from "../../base/clock.ts";
import { RametError } from "../../base/errors.ts";
import { checkedNamespace, checkedRef, type CheckpointRef } from "../checkpoint-id.ts";
import type { CheckpointStore, StoreHealth, StoreUsage } from "../checkpoint-store.ts";
import { expiryOf } from "../grant-check.ts";
import { anotherCluster, decodeOwner, encodeOwner, ownerFile } from "../owner.ts";
import type { PublishedCheckpoint, Step } from "../sessions.ts";
import { guarded, spaceHint, storeError } from "../store-error.ts";
import { ifPresent, readSmallFile, statOf, syncDirectories, unless, writeDurably } from "./durable.ts";
import { type Layout, layoutOf, probePrefix, requireRoot, rootProblem } from "./layout.ts";
import {
  findPublished,
  makeNamespaceDirectory,
  namespaceOf,
  namespacesIn,
  publishedManifest,
  requireDirectories,
  removeCheckpoint,
} from "./namespace-directory.ts";
import { scrubStore } from "./scrub.ts";
import { sweepStore } from "./sweep.ts";

export interface DirectoryStoreOptions {
  /** The existing root directory, which contains a directory per namespace. Must be one file system with hard links. */
  root: string;
  /** Returns the path of a namespace's directory inside a cell. @default its path in the root */
  cellPath?: (namespace: string) => string;
  /** Whether restores hash all content. Others trust sizes and times, which a process that writes to the directory can forge. */
  verifyRestores?: boolean;
  /** Below this free space, `probe` reports `StoreFull`. @default 256 MiB */
  minimumFreeBytes?: number;
  /** @default the system's clock */
  clock?: Clock;
  onStep?: Step;
}

/** A store in a directory of this machine or of a file system that all nodes mount. */
export function directoryStore(options: DirectoryStoreOptions): CheckpointStore {
  const { root, clock = systemClock } = options;
  const step: Step = async (name) => options.onStep?.(name);
  const cellPath = options.cellPath ?? ((namespace) => join(root, namespace));

  function grantFor(ref: CheckpointRef, access: DirectoryGrant["access"], ttlMilliseconds: number): DirectoryGrant {
    const { namespace, checkpointId } = ref;
    const expiresAt = expiryOf(clock, ttlMilliseconds);
    return { driver: "directory", access, namespace, checkpointId, path: cellPath(namespace), expiresAt };
  }

  /** Returns the directory of a namespace, or undefined. The first write grant creates it. */
  async function directoryOf(namespace: string): Promise<Layout | undefined> {
    const layout = layoutOf(join(root, checkedNamespace(namespace)));
    await requireRoot(root);
    if ((await namespaceOf(layout.path)) === undefined) return undefined;
    await requireDirectories(layout.path, layout.contentDirectory, layout.checkpoints, layout.staging);
    return layout;
  }

  function find(request: CheckpointRef): Promise<PublishedCheckpoint | undefined> {
    return guarded(`finding checkpoint ${request.checkpointId}`, async () => {
      const ref = checkedRef(request);
      const layout = await directoryOf(ref.namespace);
      return layout && findPublished(layout, ref);
    });
  }

  return {
    bind: (cluster) => guarded(`binding the store ${root}`, () => bindStore(root, cluster)),
    owner: () => guarded(`reading the owner of the store ${root}`, () => ownerOf(root)),
    grantWrite: (request) =>
      guarded(`creating a write grant for checkpoint ${request.checkpointId}`, async () => {
        const ref = checkedRef(request);
        await requireRoot(root);
        await makeNamespaceDirectory(root, join(root, ref.namespace), ref.namespace);
        return grantFor(ref, "write", request.ttlMilliseconds);
      }),
    grantRead: (request) =>
      guarded(`creating a read grant for checkpoint ${request.checkpointId}`, () =>
        Promise.resolve({
          ...grantFor(checkedRef(request), "read", request.ttlMilliseconds),
          manifestDigest: request.manifestDigest,
          ...(options.verifyRestores === true && { verify: true as const }),
        }),
      ),
    manifest: (request) =>
      guarded(`reading the manifest of checkpoint ${request.checkpointId}`, async () => {
        const ref = checkedRef(request);
        const layout = (await directoryOf(ref.namespace)) ?? layoutOf(join(root, ref.namespace));
        return publishedManifest(layout, ref, request.digest);
      }),
    find,
    has: async (ref) => (await find(ref)) !== undefined,
    remove: (request) =>
      guarded(`removing checkpoint ${request.checkpointId}`, async () => {
        const ref = checkedRef(request);
        const layout = await directoryOf(ref.namespace);
        return layout === undefined ? { removed: false, freedBytes: 0 } : removeCheckpoint(layout, ref, step);
      }),
    sweep: (request) =>
      guarded(`sweeping the store ${root}`, () => sweepStore(root, request, { now: clock.now().getTime(), step })),
    scrub: (request = {}) => guarded(`scrubbing the store ${root}`, () => scrubStore(root, request)),
    usage: (namespace) =>
      guarded(`measuring the usage of namespace ${namespace}`, async () => {
        const layout = await directoryOf(namespace);
        return layout === undefined ? noUsage : usageOf(layout);
      }),
    namespaces: () =>
      guarded(`listing the namespaces of the store ${root}`, async () => {
        const { found } = await namespacesIn(root);
        return found.map(({ namespace }) => namespace).sort();
      }),
    probe: () => probeStore(root, options.minimumFreeBytes ?? 256 << 20),
  };
}

/** Returns the cluster that the store is bound to. */
async function ownerOf(root: string): Promise<string | undefined> {
  await requireRoot(root);
  const bytes = await readSmallFile(join(root, ownerFile), 4096);
  return bytes === undefined ? undefined : decodeOwner(bytes, `the store directory ${root}`);
}

/** Binds an unbound store. If two clusters try this at the same time, one of them fails. */
async function bindStore(root: string, cluster: string): Promise<void> {
  const owner = (await ownerOf(root)) ?? (await claim(root, cluster));
  if (owner !== cluster) throw anotherCluster(root, { owner, cluster, path: join(root, ownerFile) });
}

async function claim(root: string, cluster: string): Promise<string | undefined> {
  const draft = join(root, `.store.${randomBytes(8).toString("hex")}`);
  try {
    await writeDurably(draft, encodeOwner(cluster));
    await unless(link(draft, join(root, ownerFile)), "EEXIST");
  } finally {
    await rm(draft, { force: true });
  }
  await syncDirectories([root]);
  return ownerOf(root);
}

/** Tests everything that a publication needs: free space, a durable write, a hard link. */
async function probeStore(root: string, minimumFreeBytes: number): Promise<StoreHealth> {
  const missing = await rootProblem(root);
  if (missing !== undefined) return { problem: missing };
  try {
    await tryWrite(root);
    const { bavail, bsize } = await statfs(root);
    const freeBytes = bavail * bsize;
    if (freeBytes >= minimumFreeBytes) return { freeBytes };
    return { freeBytes, problem: nearlyFull(root, freeBytes, minimumFreeBytes) };
  } catch (error) {
    return { problem: storeError(error, `writing to the store ${root}`) };
  }
}

async function tryWrite(root: string): Promise<void> {
  const path = join(root, `${probePrefix}${randomBytes(8).toString("hex")}`);
  try {
    await writeDurably(path, Buffer.alloc(4096));
    await link(path, `${path}.link`);
    await syncDirectories([root]);
  } finally {
    await rm(path, { force: true });
    await rm(`${path}.link`, { force: true });
  }
}

function nearlyFull(root: string, freeBytes: number, minimumFreeBytes: number): RametError {
  return new RametError(
    "StoreFull",
    `the store ${root} is nearly full: ${freeBytes} bytes are free, but at least ${minimumFreeBytes} are needed`,
    {
      hint: spaceHint,
    },
  );
}

/** The usage of a namespace without data. */
const noUsage: StoreUsage = { checkpoints: 0, contents: 0, contentBytes: 0, sharedBytes: 0, stagingBytes: 0 };

/** Measures the usage of a namespace. Identifies files by inode, so that shared content counts once. */
async function usageOf(layout: Layout): Promise<StoreUsage> {
  const counted = new Set<bigint>();
  const checkpoints = (await ifPresent(readdir(layout.checkpoints))) ?? [];
  const published = newTally();
  for (const id of checkpoints) await count(layout.checkpoint(id).image, counted, published);
  const other = newTally();
  for (const path of [layout.staging, layout.contentDirectory]) await count(path, counted, other);
  return {
    checkpoints: checkpoints.length,
    contents: published.files,
    contentBytes: published.bytes,
    sharedBytes: published.againBytes,
    stagingBytes: other.bytes,
  };
}

interface Tally {
  /** Files that were counted for the first time. */
  files: number;
  bytes: number;
  /** The size of files that had been counted before. */
  againBytes: number;
}

const newTally = (): Tally => ({ files: 0, bytes: 0, againBytes: 0 });

async function count(path: string, counted: Set<bigint>, tally: Tally): Promise<void> {
  const stats = await statOf(path);
  if (stats === undefined) return;
  if (stats.isDirectory()) {
    for (const name of (await ifPresent(readdir(path))) ?? []) await count(join(path, name), counted, tally);
  } else if (counted.has(stats.ino)) tally.againBytes += Number(stats.size);
  else {
    counted.add(stats.ino);
    tally.files++;
    tally.bytes += Number(stats.size);
  }
}
