import { readdir, readFile, readlink, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";

export interface PruneOptions {
  /** The folder of one tool in the cache, with a folder for each version. */
  parent: string;
  /** The version that was just made. */
  current: string;
  now: Date;
  /** Whether something still runs from this folder. @default a look at this machine's processes */
  isInUse?: (folder: string) => Promise<boolean>;
}

/** Somebody who has asked for a tool may take a while until it runs: what was asked for since then stays. */
const keptMilliseconds = 24 * 60 * 60 * 1000;

/**
 * Removes other versions of a tool that nobody has asked for in a day and that nothing runs from. Who asks for one sets the
 * folder's modification time. Returns the versions that went.
 */
export async function pruneBuilds(options: PruneOptions): Promise<string[]> {
  const { parent, current, now, isInUse = isUsedByProcess } = options;
  const before = now.getTime() - keptMilliseconds;
  const removed: string[] = [];
  for (const entry of await readdir(parent, { withFileTypes: true })) {
    const { name } = entry;
    const folder = join(parent, name);
    if (!entry.isDirectory() || name === current || name.includes(".making-")) continue;
    if (!(await isOlder(folder, before)) || (await isInUse(folder))) continue;
    // The next one who makes the current version clears away what a kill leaves of it.
    const doomed = join(parent, `${current}.making-old-${name}`);
    await rename(folder, doomed);
    if (await isOlder(doomed, before)) {
      await rm(doomed, { recursive: true, force: true });
      removed.push(name);
    } else await rename(doomed, folder); // asked for at this very moment
  }
  return removed;
}

async function isOlder(folder: string, before: number): Promise<boolean> {
  return (await stat(folder)).mtimeMs < before;
}

/** By what processes run, were started with, or are told in their environment, as cells are. */
async function isUsedByProcess(folder: string): Promise<boolean> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  for (const pid of pids) {
    const told = await Promise.all([
      readlink(`/proc/${pid}/exe`).catch(() => ""),
      ...["cmdline", "environ"].map((name) => readFile(`/proc/${pid}/${name}`, "latin1").catch(() => "")),
    ]);
    if (told.some((text) => text.includes(`${folder}/`))) return true;
  }
  return false;
}
