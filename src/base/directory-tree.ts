import { createHash } from "node:crypto";
import { closeSync, lstatSync, openSync, readdirSync, readlinkSync, readSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { canonicalJson } from "./canonical-json.ts";
import { RametError, whyUnreadable } from "./errors.ts";

/** One entry of a directory tree, as far as its digest covers it: no times, no owners, and of the mode only whether it can be run. */
export type TreeEntry = { path: string } & (
  { type: "directory" } | { type: "link"; target: string } | { type: "file"; executable: boolean; sha256: string }
);

export interface DirectoryTree {
  /** 64 hex digits; a pure function of the entries. */
  digest: string;
  entries: TreeEntry[];
  /** The directory that the paths of the entries start from. */
  root: string;
}

/** The digest of a directory tree: the same on every machine, in any order of the entries. */
export function treeDigest(entries: readonly TreeEntry[]): string {
  const sorted = entries.toSorted(({ path: a }, { path: b }) => (a < b ? -1 : a > b ? 1 : 0));
  return createHash("sha256")
    .update(canonicalJson({ v: 1, entries: sorted }))
    .digest("hex");
}

/**
 * Reads a directory, or a single file as a tree with that file. Links are not followed.
 * @throws RametError `NotFound`, `InvalidArgument` for a socket, a device or a tree without entries
 */
export function readDirectoryTree(path: string): DirectoryTree {
  try {
    const isDirectory = lstatSync(path).isDirectory();
    const root = isDirectory ? path : dirname(path);
    const entries = isDirectory ? [...entriesBelow(path, "")] : [entryOf(root, basename(path))];
    return { digest: treeDigest(entries), entries, root };
  } catch (error) {
    if (error instanceof RametError) throw error;
    throw new RametError("NotFound", `Cannot read ${path}: ${whyUnreadable(error)}`, { cause: error });
  }
}

function* entriesBelow(root: string, directory: string): Generator<TreeEntry> {
  for (const name of readdirSync(join(root, directory)).sort()) {
    const entry = entryOf(root, directory === "" ? name : `${directory}/${name}`);
    yield entry;
    if (entry.type === "directory") yield* entriesBelow(root, entry.path);
  }
}

function entryOf(root: string, path: string): TreeEntry {
  const at = join(root, path);
  const found = lstatSync(at);
  if (found.isDirectory()) return { path, type: "directory" };
  if (found.isSymbolicLink()) return { path, type: "link", target: readlinkSync(at) };
  if (found.isFile()) return { path, type: "file", executable: (found.mode & 0o100) !== 0, sha256: sha256Of(at) };
  throw new RametError("InvalidArgument", `${at} is neither a file, a directory nor a link`);
}

function sha256Of(path: string): string {
  const hash = createHash("sha256");
  const buffer = Buffer.alloc(1024 * 1024);
  const file = openSync(path, "r");
  try {
    for (let read = readSync(file, buffer); read > 0; read = readSync(file, buffer))
      hash.update(buffer.subarray(0, read));
  } finally {
    closeSync(file);
  }
  return hash.digest("hex");
}
