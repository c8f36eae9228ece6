import { constants } from "node:fs";
import { type FileHandle, lstat, mkdir, open, readdir, readFile, rename, rm, statfs } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { errnoOf, RametError } from "../../base/errors.ts";
import { runProgram } from "../../base/run-program.ts";
import { ifPresent, unless } from "../../store/directory/durable.ts";
import type { HeldFiles, SharedEntry, SharedFiles } from "../../store/sessions.ts";
import type { CellPaths, CellSetting } from "../setting/cell-setting.ts";

const { O_CREAT, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_RDWR } = constants;

/** The slowest disk or network that fills an entry. */
const leastBytesPerMillisecond = 10 * 1024;
/** Nobody has the other locks for longer than it takes to remove entries. */
const leastMilliseconds = 60_000;
/** How often another cell can remove a lock file while it is locked here. */
const mostTries = 100;
/** The share of the file system that stays free: with less than a tenth, a kubelet evicts Pods by default. */
const freeShare = 0.1;
/** The exit code of `ramet-link lock` for a lock that another process has. */
const exitBusy = 3;

export interface NodeCacheOptions {
  paths: Pick<CellPaths, "nodeCache" | "link">;
  sizeBytes: number;
  /** @default `freeShare` */
  freeShare?: number;
  /** Logs for the operator. */
  report: (message: string, detail?: Record<string, unknown>) => void;
}

/** The cache of a cell whose Pod has a directory for it, which only cells of its namespace have. */
export function nodeCacheOf(
  { config, paths }: Pick<CellSetting, "config" | "paths">,
  report: NodeCacheOptions["report"],
): NodeCache | undefined {
  const sizeBytes = config.nodeCacheBytes;
  return sizeBytes === undefined ? undefined : new NodeCache({ paths, sizeBytes, report });
}

/**
 * The files that the cells of a node and a namespace share: `<name>-<size>` is an entry, with `.draft` while a cell makes or removes it,
 * which requires a lock on `.lock`. A cell locks the directory of each entry that it uses. Locks are those of flock(2), which end with
 * the cell, whatever ends it. Entries are below the id of the node's boot: after a power failure, none is trusted.
 */
export class NodeCache implements SharedFiles {
  readonly #options: NodeCacheOptions;
  /** Node.js closes what nothing refers to, which would end its lock. */
  readonly #held = new Set<FileHandle>();
  readonly #kept = new Map<string, HeldFiles>();

  constructor(options: NodeCacheOptions) {
    this.#options = options;
  }

  async provide(entry: SharedEntry): Promise<HeldFiles | undefined> {
    try {
      const bootId = (await readFile("/proc/sys/kernel/random/boot_id", "utf8")).trim();
      const root = join(this.#options.paths.nodeCache, bootId);
      await unless(mkdir(root, { mode: 0o700 }), "EEXIST");
      const path = join(root, `${entry.name}-${entry.sizeBytes}`);
      return (await this.#find(path, entry)) ?? (await this.#make(path, entry));
    } catch (error) {
      if (error instanceof Unfilled) throw error.cause;
      const detail = { entry: entry.name, message: RametError.from(error).message };
      this.#options.report("the node's cache cannot be used; the cell uses its own directory", detail);
      return undefined;
    }
  }

  /** Provides an entry that this cell keeps until `keepOnly` or its end, and locks once. */
  async keep(entry: SharedEntry): Promise<HeldFiles | undefined> {
    const provided = this.#kept.get(entry.name) ?? (await this.provide(entry));
    const kept = this.#kept.get(entry.name) ?? provided;
    if (kept !== provided) await provided?.release();
    if (kept !== undefined) this.#kept.set(entry.name, kept);
    return kept;
  }

  /** Releases what this cell keeps, except for these entries. */
  async keepOnly(names: readonly string[]): Promise<void> {
    const others = [...this.#kept].filter(([name]) => !names.includes(name));
    for (const [name] of others) this.#kept.delete(name);
    await Promise.all(others.map(([, { release }]) => release()));
  }

  async #find(path: string, { isIntact }: SharedEntry): Promise<HeldFiles | undefined> {
    const handle = await openDirectory(path);
    if (handle === undefined) return undefined;
    this.#held.add(handle);
    const release = async (): Promise<void> => {
      if (this.#held.delete(handle)) await handle.close();
    };
    try {
      await this.#lock(handle, "shared");
      // It may have been removed before the lock.
      if ((await isAt(handle, path)) && (await isIntact(path))) {
        const now = new Date();
        await unless(handle.utimes(now, now), "EROFS");
        return { path, release };
      }
    } catch (error) {
      await release();
      throw error;
    }
    await release();
    return undefined;
  }

  /** Of several cells that need an entry, one makes it and the others wait. */
  async #make(path: string, entry: SharedEntry): Promise<HeldFiles | undefined> {
    const { fill, sizeBytes } = entry;
    if (fill === undefined) return undefined;
    const draft = `${path}.draft`;
    const lock = await this.#lockFile(path, "exclusive", leastMilliseconds + sizeBytes / leastBytesPerMillisecond);
    try {
      const found = await this.#find(path, entry);
      if (found !== undefined) return found;
      // What is here is damaged.
      const why = (await this.#discard(path)) ? await this.#makeRoom(path, entry) : besideOthers;
      if (why !== undefined) throw new RametError("StoreFull", why);
      await this.#fill(draft, fill);
      await rename(draft, path);
      return await this.#find(path, entry);
    } finally {
      if ((await ifPresent(lstat(path)).catch(() => lock)) === undefined) await rm(`${path}.lock`, { force: true });
      await lock?.close();
    }
  }

  /** Other namespaces, and small files, can have taken what was free before. @throws RametError `StoreFull` */
  async #fill(draft: string, fill: NonNullable<SharedEntry["fill"]>): Promise<void> {
    await fill(draft).catch(async (error: unknown) => {
      const isHere = (await ifPresent(lstat(draft))) !== undefined;
      await this.#removeTree(draft).catch(() => undefined);
      throw isHere && !isOfNode(error) ? new Unfilled("an entry was not filled", { cause: error }) : error;
    });
    const why = await this.#lacking(0);
    if (why === undefined) return;
    await this.#removeTree(draft);
    throw new RametError("StoreFull", why);
  }

  /**
   * Removes what no cell uses, least recently used first, until an entry fits, and creates its draft, which counts from now on.
   * @returns why it does not fit
   */
  async #makeRoom(path: string, entry: SharedEntry): Promise<string | undefined> {
    const root = dirname(path);
    // It can take long, and no cell needs to wait for it.
    this.#removeFormer(basename(root)).catch((error: unknown) => {
      const { message } = RametError.from(error);
      this.#options.report("what the node's cache has from before its last start cannot be removed", { message });
    });
    const lock = await this.#lockFile(join(root, "room"), "exclusive");
    try {
      if (entry.sizeBytes > this.#options.sizeBytes) return besideOthers;
      let left = await entriesIn(root);
      let why = await this.#excess(left, entry);
      for (const one of left) {
        if (why === undefined) break;
        if (!(await this.#remove(one.path))) continue;
        left = left.filter((other) => other !== one);
        why = await this.#excess(left, entry);
      }
      if (why === undefined) await mkdir(`${path}.draft`, { mode: 0o700 });
      return why;
    } finally {
      await lock?.close();
    }
  }

  async #removeFormer(bootId: string): Promise<void> {
    const directory = this.#options.paths.nodeCache;
    const former = (await readdir(directory)).filter((name) => name !== bootId);
    for (const name of former) await this.#removeTree(join(directory, name));
  }

  /**
   * Why an entry does not fit, by the declared sizes of all: small files take more, other namespaces use the disk too, and what other cells
   * are making does not take its space yet.
   */
  async #excess(others: readonly Stored[], { sizeBytes, scratchBytes = 0 }: SharedEntry): Promise<string | undefined> {
    const sizeOf = (all: readonly Stored[]): number => all.reduce((sum, one) => sum + one.sizeBytes, sizeBytes);
    if (sizeOf(others) > this.#options.sizeBytes) return besideOthers;
    return this.#lacking(sizeOf(others.filter(({ isDraft }) => isDraft)) + scratchBytes);
  }

  /** Why the disk has no room for so many bytes, or has too few files left. */
  async #lacking(bytes: number): Promise<string | undefined> {
    const { paths, freeShare: share = freeShare } = this.#options;
    const { bavail, blocks, bsize, ffree, files } = await statfs(paths.nodeCache);
    const isFree = bavail * bsize - bytes >= blocks * bsize * share;
    // Some file systems have no number of files.
    const hasFiles = files === 0 || ffree >= files * share;
    return isFree && hasFiles
      ? undefined
      : `with the entry, less than ${100 * share} % of the node's disk would be free`;
  }

  /** Removes an entry unless a cell makes or uses it. The others can make room for one that cannot be removed. */
  async #remove(path: string): Promise<boolean> {
    let lock: FileHandle | undefined;
    try {
      lock = await this.#lockFile(path, "exclusive-now");
      if (lock === undefined) return false;
      if (!(await this.#discard(path))) return false;
      await rm(`${path}.lock`);
      return true;
    } catch (error) {
      const { message } = RametError.from(error);
      this.#options.report("an entry of the node's cache cannot be removed", { path, message });
      return false;
    } finally {
      await lock?.close();
    }
  }

  /** Removes an entry whose lock this cell has, and its draft, unless a cell uses it. */
  async #discard(path: string): Promise<boolean> {
    const draft = `${path}.draft`;
    const handle = await openDirectory(path);
    try {
      if (handle !== undefined && !(await this.#lock(handle, "exclusive-now"))) return false;
      await this.#removeTree(draft);
      if (handle === undefined) return true;
      // A cell that is killed here leaves no half of an entry under its name.
      await rename(path, draft);
      await this.#removeTree(draft);
      return true;
    } finally {
      await handle?.close();
    }
  }

  /** @returns undefined if another process has the lock */
  async #lockFile(path: string, how: LockMode, milliseconds?: number): Promise<FileHandle | undefined> {
    const file = `${path}.lock`;
    for (let tries = 0; tries < mostTries; tries += 1) {
      const handle = await open(file, O_CREAT | O_RDWR | O_NOFOLLOW | O_NONBLOCK, 0o600);
      let isLocked = false;
      try {
        if (!(await this.#lock(handle, how, milliseconds))) return undefined;
        isLocked = await isAt(handle, file);
        if (isLocked) return handle;
      } finally {
        if (!isLocked) await handle.close();
      }
    }
    throw new RametError("Unavailable", `other cells remove ${file} again and again`);
  }

  /** The lock belongs to what this process has open. @returns false if another process has it */
  async #lock(handle: FileHandle, how: LockMode, milliseconds = leastMilliseconds): Promise<boolean> {
    const { link } = this.#options.paths;
    const call = { link, args: ["lock", how], passed: handle.fd, timeoutMilliseconds: milliseconds };
    return (await runLink(call)) === 0;
  }

  /** A missing directory is no error. */
  async #removeTree(path: string): Promise<void> {
    await removeTree(path, this.#options.paths.link);
  }
}

/** Removes a directory with all that is in it. A missing one is no error. @throws RametError `Unavailable`, `Timeout` */
export async function removeTree(path: string, link: string, timeoutMilliseconds = leastMilliseconds): Promise<void> {
  await runLink({ link, args: ["tree", "remove", path], timeoutMilliseconds });
}

interface LinkCall {
  link: string;
  args: readonly string[];
  /** What it gets as its fourth descriptor. */
  passed?: number | undefined;
  timeoutMilliseconds: number;
}

/** @returns the exit code: 0, or that for a lock that another process has */
async function runLink({ link, args, passed, timeoutMilliseconds }: LinkCall): Promise<number> {
  const { code, stdout, stderr } = await runProgram({
    program: link,
    args,
    what: "waiting for another cell",
    // It ends with its input.
    stdio: ["pipe", "pipe", "pipe", passed],
    timeoutMilliseconds,
  });
  if (code !== 0 && code !== exitBusy)
    throw new RametError("Unavailable", `${args.join(" ")}: ${stdout}${stderr}`.trim());
  return code;
}

const besideOthers = "the entry does not fit beside those that sandboxes use";

type LockMode = "shared" | "exclusive" | "exclusive-now";

/** The error of a caller's `fill` that no other directory would help. */
class Unfilled extends Error {}

function isOfNode(error: unknown): boolean {
  if (error instanceof RametError) return ["StoreFull", "Unavailable", "Timeout"].includes(error.code);
  return errnoOf(error) !== undefined;
}

interface Stored {
  path: string;
  isDraft: boolean;
  sizeBytes: number;
  usedAt: number;
}

/** The entries and drafts, least recently used first. */
async function entriesIn(root: string): Promise<Stored[]> {
  const entries = (await readdir(root)).map(async (name): Promise<Stored[]> => {
    const [, entry, size, draft] = /^([a-z]+-[0-9a-f]{64}-(\d+))(\.draft)?$/.exec(name) ?? [];
    const found = entry === undefined ? undefined : await ifPresent(lstat(join(root, name)));
    if (entry === undefined || found === undefined) return [];
    return [{ path: join(root, entry), isDraft: draft !== undefined, sizeBytes: Number(size), usedAt: found.mtimeMs }];
  });
  return (await Promise.all(entries)).flat().sort((a, b) => a.usedAt - b.usedAt);
}

async function openDirectory(path: string): Promise<FileHandle | undefined> {
  return ifPresent(open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
}

/** Whether a path still leads to what is open. */
async function isAt(handle: FileHandle, path: string): Promise<boolean> {
  const [own, found] = await Promise.all([handle.stat(), ifPresent(lstat(path))]);
  return own.ino === found?.ino && own.dev === found.dev;
}
