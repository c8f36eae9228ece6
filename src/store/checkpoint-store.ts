import type { RametError } from "../base/errors.ts";
import type { Grant } from "../api/cell/grant.ts";
import type { CheckpointRef } from "./checkpoint-id.ts";
import type { Manifest } from "./manifest.ts";
import type { PublishedCheckpoint } from "./sessions.ts";

/**
 * The trusted side of a store: what the controller holds. Cells never see it; they get a grant for one checkpoint and
 * open that with `openForWrite` and `openForRead`. Every driver passes the suite in `test/contract/store`.
 */
export interface CheckpointStore {
  /**
   * Makes the store one cluster's, for good: what another cluster's API does not know, its sweep would remove.
   * @throws RametError `StoreOfAnotherCluster` when it is another's already, `StoreUnavailable`, `StoreReadOnly`
   */
  bind(cluster: string): Promise<void>;
  /** The cluster that it is bound to; undefined: to none yet. */
  owner(): Promise<string | undefined>;
  /** A right to write this one checkpoint. Makes what the namespace needs in the store. */
  grantWrite(request: CheckpointRef & { ttlMilliseconds: number }): Promise<Grant>;
  /** A right to read this one checkpoint, as long as its manifest has this digest. */
  grantRead(request: CheckpointRef & { manifestDigest: string; ttlMilliseconds: number }): Promise<Grant>;
  /** Errors: `CheckpointLost`, `CheckpointTooNew`. */
  manifest(request: CheckpointRef & { digest: string }): Promise<Manifest>;
  /** What is published under an id, for a repeat that has to find what the first try did. */
  find(ref: CheckpointRef): Promise<PublishedCheckpoint | undefined>;
  has(ref: CheckpointRef): Promise<boolean>;
  /** Removes a checkpoint and the content that only it had. One that is gone is done. Restores in progress go on. */
  remove(ref: CheckpointRef): Promise<Removal>;
  /** Removes what crashes and lost objects left behind, or only says what that would be. */
  sweep(options: SweepOptions): Promise<SweepReport>;
  /** Hashes all content, of one namespace or of all, and says what is damaged. Changes nothing. */
  scrub(options?: ScrubOptions): Promise<ScrubReport>;
  /** Those that have anything in the store, in order. */
  namespaces(): Promise<string[]>;
  usage(namespace: string): Promise<StoreUsage>;
  /** What is wrong with the store, if anything: `StoreUnavailable`, `StoreReadOnly` or `StoreFull`. Tries a write. */
  probe(): Promise<StoreHealth>;
}

export interface Removal {
  /** Whether there was anything to remove. */
  removed: boolean;
  /** Content that a restore in progress still holds is freed by a later sweep and not counted here. */
  freedBytes: number;
}

/**
 * What the Kubernetes API knows of a checkpoint. `unfinished`: its object exists and is in no terminal phase;
 * `finished`: its object exists and is; `absent`: there is no object.
 */
export type CheckpointLiveness = "unfinished" | "finished" | "absent";

export interface SweepOptions {
  /** Asked again right before each removal. It must throw when it cannot know: the sweep then ends and loses nothing. */
  standing(ref: CheckpointRef): Promise<CheckpointLiveness>;
  /** Nothing younger is touched. Must exceed the longest time to live of a grant. */
  olderThanMilliseconds: number;
  /** Of this one alone. @default all */
  namespace?: string;
  /** Removes nothing: the report says what would go if nothing changed meanwhile. @default false */
  dryRun?: boolean;
  signal?: AbortSignal;
}

export interface SweepReport {
  /** Published checkpoints whose object is gone. */
  removedCheckpoints: CheckpointRef[];
  /** Attempts that never came to a publication, unreleased restores, unfinished removals. */
  removedRests: number;
  /** Content that no checkpoint names any more. */
  removedContents: number;
  freedBytes: number;
  /** Paths in the store that are none of ours; they were left alone. */
  foreign: string[];
}

export interface ScrubOptions {
  namespace?: string;
  signal?: AbortSignal;
  /** Called before each file that is hashed, with what was hashed until then. */
  onProgress?: (progress: { bytes: number; ref: CheckpointRef; file: string }) => void;
}

export interface ScrubReport {
  checkpoints: number;
  /** Hashed; content that several checkpoints share counts once. */
  bytes: number;
  damaged: Damage[];
}

export interface Damage extends CheckpointRef {
  /** The file that is damaged; absent if it is the manifest. */
  file?: string;
  reason: string;
}

export interface StoreUsage {
  checkpoints: number;
  /** Files that are kept for them, shared ones once. */
  contents: number;
  /** What the content of all published checkpoints takes, shared content once. */
  contentBytes: number;
  /** What it would take more if nothing were shared. */
  sharedBytes: number;
  /** What is being written, or waits for a sweep. */
  stagingBytes: number;
}

export interface StoreHealth {
  problem?: RametError;
  /** Absent where the driver cannot know. */
  freeBytes?: number;
}
