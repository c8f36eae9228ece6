import { randomBytes } from "node:crypto";
import type { BigIntStats } from "node:fs";
import { link, readdir, rm, statfs } from "node:fs/promises";
import { join } from "node:path";
import type { DirectoryGrant } from "../../api/wire/grant.ts";
import { type Clock, systemClock } from "../../base/clock.ts";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import { type CheckpointRef, expiryOf } from "../checkpoint-id.ts";
import {
  type CheckpointStore,
  type StoreHealth,
  type StoreUsage,
  decodeOwner,
  encodeOwner,
  ownerFile,
  storeOf,
} from "../checkpoint-store.ts";
import type { Step } from "../sessions.ts";
import { spaceHint, storeError } from "../store-error.ts";
import { bytesOf, filesBelow, ifPresent, readSmallFile, syncDirectories, unless, writeDurably } from "./durable.ts";
import { type Layout, layoutOf, probePrefix, requireRoot, rootProblem } from "./layout.ts";
import {
  findPublished,
  makeNamespaceDirectory,
  namespaceOf,
  namespacesIn,
  publishedManifest,
  removeCheckpoint,
  requireDirectories,
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

  function grantFor(
    { namespace, checkpointId, ttlMilliseconds }: CheckpointRef & { ttlMilliseconds: number },
    access: DirectoryGrant["access"],
  ): DirectoryGrant {
    const expiresAt = expiryOf(clock, ttlMilliseconds);
    return { driver: "directory", access, namespace, checkpointId, path: cellPath(namespace), expiresAt };
  }

  /** Returns the directory of a namespace, or undefined. The first write grant creates it. */
  async function directoryOf(namespace: string): Promise<Layout | undefined> {
    const layout = layoutOf(join(root, namespace));
    await requireRoot(root);
    if ((await namespaceOf(layout.path)) === undefined) return undefined;
    await requireDirectories(layout.path, layout.contentDirectory, layout.checkpoints, layout.staging);
    return layout;
  }

  return storeOf({
    name: root,
    ownerPath: join(root, ownerFile),
    owner: () => ownerOf(root),
    claim: (cluster) => claim(root, cluster),
    grantWrite: async (request) => {
      await requireRoot(root);
      await makeNamespaceDirectory(root, join(root, request.namespace), request.namespace);
      return grantFor(request, "write");
    },
    grantRead: (request) => {
      const { manifestDigest } = request;
      const verify = options.verifyRestores === true || undefined;
      return Promise.resolve({ ...grantFor(request, "read"), manifestDigest, ...defined({ verify }) });
    },
    manifest: async ({ digest, ...ref }) => {
      const layout = (await directoryOf(ref.namespace)) ?? layoutOf(join(root, ref.namespace));
      return publishedManifest(layout, ref, digest);
    },
    find: async (ref) => {
      const layout = await directoryOf(ref.namespace);
      return layout && findPublished(layout, ref);
    },
    remove: async (ref) => {
      const layout = await directoryOf(ref.namespace);
      return layout === undefined ? { removed: false, freedBytes: 0 } : removeCheckpoint(layout, ref, step);
    },
    sweep: (request) => sweepStore(root, request, { now: clock.now().getTime(), step }),
    scrub: (request) => scrubStore(root, request),
    usage: async (namespace) => {
      const layout = await directoryOf(namespace);
      return layout === undefined ? noUsage : usageOf(layout);
    },
    namespaces: async () => (await namespacesIn(root)).found.map(({ namespace }) => namespace).sort(),
    probe: () => probeStore(root, options.minimumFreeBytes ?? 256 << 20),
  });
}

/** Returns the cluster that the store is bound to. */
async function ownerOf(root: string): Promise<string | undefined> {
  await requireRoot(root);
  const bytes = await readSmallFile(join(root, ownerFile), 4096);
  return bytes === undefined ? undefined : decodeOwner(bytes, `the store directory ${root}`);
}

async function claim(root: string, cluster: string): Promise<void> {
  const draft = join(root, `.store.${randomBytes(8).toString("hex")}`);
  try {
    await writeDurably(draft, encodeOwner(cluster));
    await unless(link(draft, join(root, ownerFile)), "EEXIST");
  } finally {
    await rm(draft, { force: true });
  }
  await syncDirectories([root]);
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
  const checkpoints = (await ifPresent(readdir(layout.checkpoints))) ?? [];
  const counted = new Set<bigint>();
  const count = async (paths: readonly string[]) => {
    const [first, again] = [[] as BigIntStats[], [] as BigIntStats[]];
    for (const file of (await Promise.all(paths.map(filesBelow))).flat()) {
      (counted.has(file.ino) ? again : first).push(file);
      counted.add(file.ino);
    }
    return { first, again };
  };
  const published = await count(checkpoints.map((id) => layout.checkpoint(id).image));
  const other = await count([layout.staging, layout.contentDirectory]);
  return {
    checkpoints: checkpoints.length,
    contents: published.first.length,
    contentBytes: bytesOf(published.first),
    sharedBytes: bytesOf(published.again),
    stagingBytes: bytesOf(other.first),
  };
}
