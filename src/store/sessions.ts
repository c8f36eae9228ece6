import type { Clock } from "../base/clock.ts";
import type { Phases } from "../base/phases.ts";
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
export type OpenForReadOptions = OpenOptions;
