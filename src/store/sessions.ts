import type { Clock } from "../base/clock.ts";
import type { Phases } from "../base/phases.ts";
import type { Manifest, ManifestDraft } from "./manifest.ts";

/** A checkpoint as it stands in the store. */
export interface PublishedCheckpoint {
  manifestDigest: string;
  /** The sum of its files, whether or not other checkpoints share them. */
  sizeBytes: number;
}

/** What a publication tells beyond the checkpoint itself. */
export interface Publication extends PublishedCheckpoint {
  /** Bytes that were in the store already and were not kept twice. */
  sharedBytes: number;
  /** Milliseconds by phase. */
  phases: Phases;
}

/** One checkpoint that is being written. */
export interface WriteSession {
  /** An empty folder: gVisor writes the checkpoint's files straight into it. Only plain files are allowed. */
  readonly stagingPath: string;
  /** What a former attempt for the same checkpoint has published already: the wish is fulfilled, take no new cut. */
  readonly published: PublishedCheckpoint | undefined;
  /**
   * Makes the files in `stagingPath` the checkpoint: afterwards all of it is durable and can be opened, or, if this
   * throws, none of it. A repeat with equal files and draft is the same success. To be called once.
   * Errors: `AlreadyExists` (another content is published under this id), `StoreFull`, `StoreReadOnly`,
   * `StoreUnavailable`, `GrantInvalid`, `InvalidArgument`, `Canceled`.
   */
  publish(draft: ManifestDraft, signal?: AbortSignal): Promise<Publication>;
  /** Removes what was staged. Harmless after `publish` and when repeated. */
  abandon(): Promise<void>;
}

/** One checkpoint that is being restored. */
export interface ReadSession {
  readonly manifest: Manifest;
  /** A folder that holds the checkpoint's files under their names, and goes on to do so when the checkpoint is removed. */
  readonly imagePath: string;
  /** Which files had to be hashed because their fingerprint was not the recorded one: normally none. */
  readonly rehashed: readonly string[];
  /** To be called when gVisor has read all it needs (`runsc wait --restore` for `--background`). Can be repeated. */
  release(): Promise<void>;
}

/** Called at each point at which a crash would leave another state behind; for tests and logs. */
export type Step = (name: string) => void | Promise<void>;

interface OpenOptions {
  /** The clock by which a grant expires. @default the system's clock */
  clock?: Clock;
  onStep?: Step;
  signal?: AbortSignal;
  /**
   * A writable folder of the cell's own: for files of a checkpoint in an object store, and for a restore from a folder that is
   * mounted read-only. @default the system's temporary folder
   */
  scratchPath?: string;
}

export interface OpenForWriteOptions extends OpenOptions {
  /** About how much will be written. If the store has less room, `StoreFull` comes before the source is disturbed. */
  expectedBytes?: number;
}

export type OpenForReadOptions = OpenOptions;
