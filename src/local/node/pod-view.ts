import { mkdirSync, realpathSync, statSync } from "node:fs";
import { dirname, join, sep } from "node:path";
import { resultOr } from "../../base/errors.ts";
import { PodDirectory } from "./pod-directory.ts";

/** The part of the machine's files that cells see. */
export interface MachineView {
  /** Directories that a cell does not see, except for `shared` and `store`: they contain other Pods' and the cluster's files. */
  hidden: readonly string[];
  /** Paths below them that every cell may read. */
  shared: readonly string[];
  /** The store's directory. A cell sees only its namespace's directory. */
  store: string;
  /** The directory of the unpacked layers, of which a cell sees those of its namespace. */
  layers: string;
}

/** The Pod's directory as its cell sees it. A short path, because paths of Unix sockets are limited to 107 bytes. */
export const directoryInside = new PodDirectory("/run/ramet", ".");

/** Translates a path below a Pod's directory to the path that its cell sees. */
export function pathInside(directory: PodDirectory, path: string): string {
  return path.startsWith(directory.path + sep) ? directoryInside.path + path.slice(directory.path.length) : path;
}

/**
 * The directory to hide from cells of this cluster: the parent of all of the user's clusters, or the cluster's directory if
 * the parent contains other files that cells need.
 */
export function hiddenDirectory(cluster: string, needed: readonly string[]): string {
  const all = dirname(cluster);
  return needed.some((path) => path.startsWith(all + sep)) ? cluster : all;
}

/** The part of the machine that one cell sees. */
export interface CellView {
  directory: PodDirectory;
  /** The Pod's namespace, whose checkpoints the cell sees. Undefined: none. */
  namespace: string | undefined;
  /** Further directories that it sees, such as volumes. */
  binds?: readonly Bind[];
}

export interface Bind {
  source: string;
  /** A path below the source, which is created if it is missing. Symbolic links in it are refused. */
  below: string;
  target: string;
  readOnly: boolean;
}

/** The flags of `ramet-link pod` for a cell. */
export function viewFlags(view: MachineView, { directory, namespace, binds = [] }: CellView): string[] {
  const own = [view.store, view.layers].flatMap((parent) => {
    const path = namespace === undefined ? undefined : namespaceDirectory(parent, namespace);
    return path === undefined ? [] : ["--bind", `${path}:${path}`];
  });
  return [
    ...view.hidden.flatMap((path) => ["--hide", path]),
    // gVisor's sockets there are removed with the Pod.
    "--hide",
    "/run",
    "--bind",
    `${directory.path}:${directoryInside.path}`,
    ...view.shared.flatMap((path) => ["--bind", `${path}:${path}:ro`]),
    ...own,
    ...binds.flatMap(bindFlags),
    ...resolverFlags(),
  ];
}

function bindFlags(bind: Bind): string[] {
  return ["--bind-below", JSON.stringify(bind)];
}

/**
 * The namespace's directory in the store. Created if missing, so that it can be mounted before the first checkpoint. If the
 * store itself is missing, the cell has no store and a checkpoint of it fails with that reason.
 */
export function namespaceDirectory(store: string, namespace: string): string | undefined {
  const path = join(store, namespace);
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch {
    if (statSync(path, { throwIfNoEntry: false })?.isDirectory() !== true) return undefined;
  }
  return path;
}

/** Mounts the target of `/etc/resolv.conf` if it is a link into `/run`, as with systemd-resolved. */
function resolverFlags(): string[] {
  const path = resultOr(() => realpathSync("/etc/resolv.conf"), "");
  return path.startsWith("/run/") ? ["--bind", `${path}:${path}:ro`] : [];
}
