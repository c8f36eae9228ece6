import { posix } from "node:path";
import { RametError } from "../../base/errors.ts";
import { shownName, type TarEntry, TarReader } from "../../base/tar-reader.ts";
import type { Checkpoint } from "../kinds/checkpoint.ts";
import { annotations, labels } from "../names/labels.ts";

/** Limits of an uploaded directory tree. */
interface TreeLimits {
  /** The size of the archive without compression. */
  bytes: number;
  entries: number;
}

export const treeLimits: TreeLimits = { bytes: 1024 ** 3, entries: 100_000 };

/**
 * Checks an archive in the format of tar while it passes. It may contain files, directories and links. Nothing in it can be unpacked
 * outside of the target, neither by a name nor through a link. The `tar` of an image unpacks it: that of BusyBox ignores the records of
 * PAX, so both names of an entry are checked.
 */
export class TreeCheck {
  readonly #limits: TreeLimits;
  readonly #reader: TarReader;
  readonly #links = new Set<string>();
  #bytes = 0;
  #entries = 0;

  constructor(limits: TreeLimits = treeLimits) {
    this.#limits = limits;
    const onEntry = (entry: TarEntry) => {
      this.#check(entry);
      return undefined;
    };
    this.#reader = new TarReader({ onEntry, refuse: invalid, mostHeaderBytes });
  }

  /** @throws RametError `InvalidArgument` */
  add(chunk: Buffer): void {
    this.#bytes += chunk.length;
    if (this.#bytes > this.#limits.bytes) throw invalid(`it is larger than ${this.#limits.bytes} bytes`);
    this.#reader.write(chunk);
  }

  /** @throws RametError `InvalidArgument` */
  end(): void {
    if (this.#entries === 0) throw invalid("its format is not tar");
    this.#reader.end();
  }

  #check({ path, linkPath, shortPath, shortLinkPath, type }: TarEntry): void {
    if (++this.#entries > this.#limits.entries) throw invalid(`it has more than ${this.#limits.entries} entries`);
    const name = JSON.stringify(shownName(path.slice(0, 200)));
    if (!accepted.has(type)) throw invalid(`${name} is neither a file, a directory nor a link`);
    const paths = [path, shortPath];
    const targets = type === hardLink ? [linkPath, shortLinkPath] : [];
    if (!paths.every(isInside)) throw invalid(`${name} is outside of the directory`);
    if (!targets.every(isInside)) throw invalid(`${name} links to a file outside of the directory`);
    const plain = paths.map(plainPath);
    const isBelowLink = [...plain, ...targets.map(plainPath)].flatMap(parentsOf).some((each) => this.#links.has(each));
    if (isBelowLink) throw invalid(`${name} is below a symbolic link`);
    // A hard link to a symbolic link is one, too.
    const isLink = type === symbolicLink || targets.some((each) => this.#links.has(plainPath(each)));
    for (const each of plain) {
      if (isLink) this.#links.add(each);
      // A link that is replaced by a file or a directory is none any more.
      else if (type !== hardLink && path === shortPath) this.#links.delete(each);
    }
  }
}

const hardLink = "1";
const symbolicLink = "2";
const accepted = new Set(["0", hardLink, symbolicLink, "5", "7"]);

/** A header of long names. */
const mostHeaderBytes = 64 * 1024;

function isInside(path: string): boolean {
  return path !== "" && !path.startsWith("/") && !path.split("/").includes("..") && !path.includes("\0");
}

function plainPath(path: string): string {
  return posix.normalize(path).replace(/\/+$/, "");
}

function parentsOf(path: string): string[] {
  const parts = path.split("/");
  return parts.slice(1).map((_, index) => parts.slice(0, index + 1).join("/"));
}

function invalid(problem: string): RametError {
  return new RametError("InvalidArgument", `The archive is not valid: ${problem}`);
}

/**
 * An uploaded directory tree is the file `treeArchive` of a sandbox that was captured for it. So the store holds it like every other
 * checkpoint, and its object is a Checkpoint of the namespace. docs/decisions/0024 has the reasons.
 */

/** The purpose of such Checkpoints, and of the sandboxes that they are captured from. */
export const treePurpose = "tree";

/** The archive in a sandbox: tar without compression. Not in /tmp, which a checkpoint of files may not contain. */
export const treeArchive = "/.ramet-tree.tar";

/** The user who writes and reads the archive. */
export const treeUser = "0";

/** The name of the Checkpoint of a tree. @param digest 64 hex digits, which identify the content */
export function treeCheckpointName(digest: string): string {
  return `tree-${digest.slice(0, 40)}`;
}

/** The metadata of the Checkpoint. @param sha256 of the archive, 64 hex digits */
export function treeMetadata({ namespace, digest, sha256 }: { namespace: string; digest: string; sha256: string }) {
  return {
    namespace,
    name: treeCheckpointName(digest),
    labels: { [labels.purpose]: treePurpose },
    annotations: { [annotations.tree]: digest, [annotations.treeArchive]: sha256 },
  };
}

export interface UploadedTree {
  checkpointId: string;
  /** The digest of the archive: 64 hex digits. */
  sha256: string;
}

/** The tree of a Checkpoint. Undefined: it is not, or not yet, the tree with this digest. */
export function uploadedTree(checkpoint: Checkpoint | undefined, digest: string): UploadedTree | undefined {
  const { metadata, status } = checkpoint ?? {};
  const isUsable = status?.phase === "Succeeded" && metadata?.deletionTimestamp === undefined;
  const { [annotations.tree]: tree, [annotations.treeArchive]: sha256 } = metadata?.annotations ?? {};
  if (!isUsable || tree !== digest || sha256 === undefined || status.checkpointId === undefined) return undefined;
  return { checkpointId: status.checkpointId, sha256 };
}
