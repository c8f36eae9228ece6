import { mkdirSync, realpathSync, statSync } from "node:fs";
import { dirname, join, sep } from "node:path";
import { PodDirectory } from "./pod-directory.ts";

/** What cells see of the machine. */
export interface MachineView {
  /** Folders of which a cell sees nothing but what the others here name: they hold what is other Pods' and the cluster's. */
  hidden: readonly string[];
  /** What every cell may read within them. */
  shared: readonly string[];
  /** The store's directory, of which a cell sees its own namespace's directory only. */
  store: string;
}

/** The Pod's directory as its cell sees it. Paths of Unix sockets end at 107 bytes, and the directory itself may lie deep. */
export const directoryInside = new PodDirectory("/run/ramet", ".");

/** The path that something in a Pod's directory has for its cell. */
export function pathInside(directory: PodDirectory, path: string): string {
  return path.startsWith(directory.path + sep) ? directoryInside.path + path.slice(directory.path.length) : path;
}

/**
 * The directory to hide for a cluster in this directory: the one of all this user's clusters, or the cluster's own where
 * something that cells need lies beside it.
 */
export function hiddenDirectory(cluster: string, needed: readonly string[]): string {
  const all = dirname(cluster);
  return needed.some((path) => path.startsWith(all + sep)) ? cluster : all;
}

/** The flags of `ramet-link pod` for a cell of this namespace. */
export function viewFlags(view: MachineView, directory: PodDirectory, namespace: string): string[] {
  const store = namespaceDirectory(view.store, namespace);
  return [
    ...view.hidden.flatMap((path) => ["--hide", path]),
    // Sockets that gVisor leaves there go with the Pod.
    "--hide",
    "/run",
    "--bind",
    `${directory.path}:${directoryInside.path}`,
    ...view.shared.flatMap((path) => ["--bind", `${path}:${path}:ro`]),
    ...(store === undefined ? [] : ["--bind", `${store}:${store}`]),
    ...resolverFlags(),
  ];
}

/**
 * The namespace's directory in the store, made if it is not there, so that it can be shown before the first checkpoint. Where
 * the store is away nothing is made in its place: the cell then has none, and a checkpoint of it says so.
 */
function namespaceDirectory(store: string, namespace: string): string | undefined {
  const path = join(store, namespace);
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch {
    if (statSync(path, { throwIfNoEntry: false })?.isDirectory() !== true) return undefined;
  }
  return path;
}

/** Where the machine's resolv.conf is a link into `/run`, as systemd-resolved has it, its target is shown still. */
function resolverFlags(): string[] {
  try {
    const path = realpathSync("/etc/resolv.conf");
    return path.startsWith("/run/") ? ["--bind", `${path}:${path}:ro`] : [];
  } catch {
    return [];
  }
}
