import { mkdir, stat, constants, copyFile, mkdtemp, rm, writeFile } from "node:fs/promises";
import { once } from "node:events";
import { createServer } from "node:net";
import { join } from "node:path";
import { RametError, errnoOf } from "../../../base/errors.ts";
import { FairTurns } from "../../../base/fair-turns.ts";
import type { Log } from "../../../base/log.ts";
import { Collection } from "./collection.ts";
import { GroupRecord, SnapshotRecord, VolumeRecord } from "./records.ts";
import type { Trees } from "./trees.ts";

/** The volumes and snapshots in a directory of this machine. */
export type Storage = Awaited<ReturnType<typeof openStorage>>;

/** Opens the directory, and removes what interrupted operations left. @throws RametError `Conflict` if another driver uses it */
export async function openStorage(
  { directory, trees, log }: { directory: string; trees: Trees; log: Log },
  signal: AbortSignal,
) {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const close = await lockDirectory(directory);
  const options = { directory, trees, log };
  const volumes = new Collection({ ...options, kind: "volume", schema: VolumeRecord });
  const snapshots = new Collection({ ...options, kind: "snapshot", schema: SnapshotRecord });
  const groups = new Collection({ ...options, kind: "group", schema: GroupRecord });
  for (const collection of [volumes, snapshots, groups]) await collection.open();
  await removeMembersWithoutGroup(snapshots, groups, log);
  const copies = (await canShareBlocks(directory)) ? "reflink" : "full";
  log.info({ directory, copies }, meanings[copies]);
  const turns = new FairTurns(mostCopies);
  return {
    directory,
    volumes,
    snapshots,
    groups,
    operations: new Operations(),
    /** Lets another driver use the directory. */
    close,
    /** The facts that a volume's users can read about it. */
    volumeContext: { copies },
    /** @throws RametError `NotFound` */
    contentOf: async ({ kind, id }: { kind: "snapshot" | "volume"; id: string }) =>
      kind === "volume"
        ? { path: volumes.dataOf(id), sizeBytes: (await volumes.get(id)).capacityBytes }
        : { path: snapshots.dataOf(id), sizeBytes: (await snapshots.get(id)).sizeBytes },
    /** Copies a directory. Waits if many are being copied. */
    copy: (from: string, to: string) =>
      turns.run(
        "",
        async () => {
          log.debug({ from, to, ...(await trees.copy(from, to)) }, "copied");
        },
        signal,
      ),
  };
}

/** Removes the members that remain if the driver ended while it created a group. */
async function removeMembersWithoutGroup(
  snapshots: Collection<SnapshotRecord>,
  groups: Collection<GroupRecord>,
  log: Log,
): Promise<void> {
  for (const { id, groupId } of await snapshots.list()) {
    if (groupId === undefined || (await groups.find(groupId)) !== undefined) continue;
    log.info({ id, groupId }, "removing a snapshot of a group that was not completed");
    await snapshots.remove(id);
  }
}

/** More would only compete for the disk. */
const mostCopies = 4;

const meanings = {
  reflink: "snapshots and clones share the blocks of files with their sources",
  full: "snapshots and clones are full copies, because the file system cannot share blocks between files",
};

/**
 * Keeps other drivers out of a directory, in which they would remove what this one is making. The lock is the name of an abstract
 * socket, so it ends with the process.
 * @returns a function that ends it
 * @throws RametError `Conflict`
 */
async function lockDirectory(directory: string): Promise<() => void> {
  const { dev, ino } = await stat(directory, { bigint: true });
  const server = createServer((connection) => connection.destroy());
  server.listen(`\0ramet-csi-${dev}-${ino}`);
  try {
    await once(server, "listening");
  } catch (error) {
    if (errnoOf(error) !== "EADDRINUSE") throw error;
    throw new RametError("Conflict", `Opening ${directory} failed: another driver uses it`, {
      hint: "Stop the other driver, or choose another directory",
    });
  }
  server.unref();
  return () => {
    server.close();
  };
}

/** Whether files in this directory can share blocks, as on btrfs and on XFS with reflinks. */
async function canShareBlocks(directory: string): Promise<boolean> {
  const probe = await mkdtemp(join(directory, "probe-"));
  try {
    await writeFile(join(probe, "a"), "x".repeat(65_536));
    await copyFile(join(probe, "a"), join(probe, "b"), constants.COPYFILE_FICLONE_FORCE);
    return true;
  } catch (error) {
    if (refusals.has(errnoOf(error) ?? "")) return false;
    throw error;
  } finally {
    await rm(probe, { recursive: true, force: true });
  }
}

/** How file systems and kernels refuse FICLONE (ioctl_ficlone(2)). */
const refusals: ReadonlySet<string> = new Set([
  "ENOTSUP",
  "EOPNOTSUPP",
  "ENOTTY",
  "EINVAL",
  "EXDEV",
  "ENOSYS",
  "EPERM",
]);

/** The objects of an operation: it changes one volume, snapshot or group, and may read others. */
export interface Use {
  changes: string;
  reads?: string | readonly string[] | undefined;
}

/**
 * Refuses an operation on a volume or snapshot while another one uses it. A caller repeats a refused request, and its first
 * request may still run: a copy continues when its caller has given up.
 */
export class Operations {
  readonly #changed = new Set<string>();
  readonly #readers = new Map<string, number>();

  /** @throws RametError `Conflict` immediately, if another operation uses the same */
  async run<T>({ changes, reads }: Use, work: () => Promise<T>): Promise<T> {
    if (this.#changed.has(changes) || this.#readers.has(changes)) throw inProgress(changes);
    const read = reads === undefined ? [] : [reads].flat();
    const busy = read.find((id) => this.#changed.has(id));
    if (busy !== undefined) throw inProgress(busy);
    this.#changed.add(changes);
    for (const id of read) this.#readers.set(id, (this.#readers.get(id) ?? 0) + 1);
    try {
      return await work();
    } finally {
      this.#changed.delete(changes);
      for (const id of read) this.#release(id);
    }
  }

  #release(id: string): void {
    const left = (this.#readers.get(id) ?? 0) - 1;
    if (left > 0) this.#readers.set(id, left);
    else this.#readers.delete(id);
  }
}

function inProgress(id: string): RametError {
  return new RametError("Conflict", `The request is refused: another operation on ${id} is in progress`, {
    retryable: true,
    hint: "Repeat the request",
  });
}
