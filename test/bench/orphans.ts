import { readdir, readFile, readlink } from "node:fs/promises";
import { join } from "node:path";

/** The resources of a cluster on the machine. Two counts of an idle cluster must be equal. */
export interface Orphans {
  processes: number;
  mounts: number;
  networkNamespaces: number;
  /** In the cluster's directory, without the data of etcd and the logs of the parts. */
  files: number;
  openFiles: number;
}

/**
 * Counts the resources of the cluster in `dataDirectory`: processes with that path in their command line or environment, their
 * open files and network namespaces, mounts below the directory, and files in it.
 */
export async function countOrphans(dataDirectory: string): Promise<Orphans> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const ours: string[] = [];
  const namespaces = new Set<string>();
  const own = await readlink("/proc/self/ns/net");
  let openFiles = 0;
  for (const pid of pids) {
    if (pid === `${process.pid}` || !(await namesDirectory(pid, dataDirectory))) continue;
    ours.push(pid);
    openFiles += (await readdir(`/proc/${pid}/fd`).catch(() => [])).length;
    const namespace = await readlink(`/proc/${pid}/ns/net`).catch(() => own);
    if (namespace !== own) namespaces.add(namespace);
  }
  const mounts = (await readFile("/proc/self/mounts", "utf8"))
    .split("\n")
    .filter((line) => line.includes(dataDirectory));
  return {
    processes: ours.length,
    mounts: mounts.length,
    networkNamespaces: namespaces.size,
    files: (await files(dataDirectory)).length,
    openFiles,
  };
}

async function namesDirectory(pid: string, directory: string): Promise<boolean> {
  for (const file of ["cmdline", "environ"]) {
    const text = await readFile(`/proc/${pid}/${file}`, "utf8").catch(() => "");
    if (text.includes(directory)) return true;
  }
  return false;
}

/** Directories are not counted: the store creates up to 256 in each namespace, and keeps them. */
async function files(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true }).catch(() => []);
  return entries
    .filter((entry) => !entry.isDirectory())
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((path) => !/\/(etcd|compile-cache)\/|\.log$/.test(path));
}
