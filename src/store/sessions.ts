import type { Clock, Phases } from "../base/clock.ts";
import type { Manifest, ManifestDraft } from "./manifest.ts";

export interface PublishedCheckpoint {
  manifestDigest: string;
  /** The total size of its files, including shared ones. */
  sizeBytes: number;
}

export interface Publication extends PublishedCheckpoint {
  /** The size of content that the store already had. */
  sharedBytes: number;
  /** The duration of each phase in milliseconds. */
  phases: Phases;
}

export interface WriteSession {
  /** An empty directory. gVisor writes the checkpoint's files into it. Only regular files are allowed. */
  readonly stagingPath: string;
  /** Set if an earlier attempt has published this checkpoint, so no new capture is needed. */
  readonly published: PublishedCheckpoint | undefined;
  /**
   * Publishes the files in `stagingPath` as the checkpoint, completely and durably. If it throws, nothing is published. Call it
   * once per session. A new session with equal files and draft has the same result.
   * @throws RametError `AlreadyExists` if different content is published under this id; `StoreFull`, `StoreReadOnly`,
   *   `StoreUnavailable`, `GrantInvalid`, `InvalidArgument`, `Canceled`
   */
  publish(draft: ManifestDraft, signal?: AbortSignal): Promise<Publication>;
  /** Removes the staged files. Can be called after `publish`, and more than once. */
  abandon(): Promise<void>;
}

export interface ReadSession {
  readonly manifest: Manifest;
  /** A directory with the checkpoint's files. They remain readable even if the checkpoint is removed. */
  readonly imagePath: string;
  /** The files that were hashed because their fingerprint differed from the recorded one. Normally empty. */
  readonly rehashed: readonly string[];
  /** Call it when gVisor has read all files (with `--background`: after `runsc wait --restore`). Can be repeated. */
  release(): Promise<void>;
}

/** Called at each point where a crash would leave a different state. For tests and logs. */
export type Step = (name: string) => void | Promise<void>;

interface OpenOptions {
  /** The clock by which a grant expires. @default the system's clock */
  clock?: Clock;
  onStep?: Step;
  signal?: AbortSignal;
  /**
   * A writable directory of the cell, for files on their way to or from a bucket, and for restores from a directory store
   * that is mounted read-only. @default the system's temporary directory
   */
  scratchPath?: string;
}

export type OpenForWriteOptions = OpenOptions;

export interface OpenForReadOptions extends OpenOptions {
  /** Keeps the files of checkpoints in buckets, as they are there, for other cells of the node. @default each cell downloads them */
  shared?: SharedFiles | undefined;
}

/** Directories that the cells of a node share. */
export interface SharedFiles {
  /**
   * Provides a directory that another cell may have filled. It stays as it is until `release`, or until the cell ends.
   * @returns undefined if this node cannot hold it: use a directory of the cell
   * @throws what `fill` throws, unless the cause is this node
   */
  provide(entry: SharedEntry): Promise<HeldFiles | undefined>;
}

export interface SharedEntry {
  /** A kind and 64 hex digits. Equal names have equal content. */
  name: string;
  sizeBytes: number;
  /** What `fill` takes of the disk in addition, until it ends. @default 0 */
  scratchBytes?: number;
  /** @default the directory is provided only if another cell has filled it */
  fill?: (directory: string) => Promise<void>;
  /** Whether the content is as `fill` left it. */
  isIntact: (directory: string) => Promise<boolean>;
}

export interface HeldFiles {
  path: string;
  release: () => Promise<void>;
}
