import type { CellState, Identity } from "../api/cell/cell-api.ts";
import type { Phases } from "../base/phases.ts";
import type { consistencies, RametCheckpointStatus } from "../api/kinds/checkpoint.ts";
import type { Contents } from "../api/schema/contents.ts";
import type { RametError } from "../base/errors.ts";

/**
 * One way to take and restore checkpoints. Every method can be repeated: names are given by the caller, and a repeat
 * finds what the first call did. Every backend passes the suite in `test/contract/backends`.
 */
export interface Backend {
  /** As `status.ramet.backend` of a Checkpoint says it. */
  readonly name: string;
  /** What this backend can do here and now, and if it can do nothing, why. Changes nothing. */
  probe(): Promise<Probe>;
  /**
   * Captures the source at one instant. Whatever fails, the source goes on as it was.
   * @throws RametError `SandboxNotReady`, `Conflict` when another cut of the source is under way, `Unavailable` when the
   *   source cannot be reached, `Timeout` when it does not answer, `StoreFull`, `StoreReadOnly`, `StoreUnavailable`,
   *   `CheckpointTooLarge`, `EngineFailed`
   */
  cut(wish: CaptureRequest): Promise<Capture>;
  /**
   * Resolves when the data is durable.
   * @throws RametError `CheckpointLost` when nothing is there under this handle, and nothing is on its way
   */
  whenReady(handle: CheckpointHandle): Promise<CheckpointRecord>;
  /**
   * Makes a sandbox that waits into a clone; answers when the clone answers under its own identity.
   * @throws RametError `CheckpointLost`, `NeedNotMet`, `EngineFailed`, `HandoverFailed`, `Timeout`, `Unavailable`
   */
  clone(wish: CloneRequest): Promise<Started>;
  /**
   * Ends what runs in a sandbox, and makes that into a clone in its place; answers as `clone` does. What is wrong with the
   * checkpoint is found before anything is ended.
   * @throws RametError as `clone`; `SandboxNotReady`, `Conflict` when another operation is under way
   */
  swap(wish: RestoreInPlaceRequest): Promise<Started>;
  /**
   * Resolves when all memory of a clone that answers already is in.
   * @throws RametError `Unavailable` when it cannot be reached, `Timeout` when it takes no end
   */
  untilLoaded(target: SandboxTarget): Promise<void>;
  /** Removes the data. What is gone is done; clones are not affected. */
  remove(handle: CheckpointHandle): Promise<void>;
}

/** A sandbox's running Pod. */
export interface SandboxTarget {
  sandboxUid: string;
  /** The Pod's address. */
  ip: string;
}

/** Names the data of one checkpoint, now and after every restart. An id means nothing without its namespace. */
export interface CheckpointHandle {
  namespace: string;
  checkpointId: string;
}

export interface CaptureRequest {
  source: SandboxTarget;
  handle: CheckpointHandle;
  contents: Contents;
  /** False: the source stands still afterwards and waits to be stopped. */
  keepRunning: boolean;
  /** Ends the wait for an answer that cannot come any more; a source that goes on brings the cut to its end. */
  signal?: AbortSignal;
}

export interface Capture {
  handle: CheckpointHandle;
  /** The instant of the capture, RFC 3339. */
  cutAt: string;
  /** Where the data was durable by the time the cut was answered: what `whenReady` would say, and how long it took. */
  record?: CheckpointRecord;
}

/** What is known of a checkpoint whose data is durable: what a Checkpoint's `status.ramet` keeps. */
export type CheckpointRecord = RametCheckpointStatus & {
  backend: string;
  contents: Contents;
  manifestDigest: string;
  sizeBytes: number;
  cutAt: string;
  consistency: (typeof consistencies)[number];
};

export interface CloneRequest {
  handle: CheckpointHandle;
  manifestDigest: string;
  contents: Contents;
  target: SandboxTarget;
  identity: Identity;
}

export interface RestoreInPlaceRequest extends CloneRequest {
  /** Tells this wish from an earlier one: the same again gets the same answer. */
  request: string;
}

/** A sandbox that answers. */
export interface Started {
  state: CellState;
  /** Milliseconds by phase, in order; empty if nobody measured. */
  phases: Phases;
}

export interface Probe {
  /** What a checkpoint may hold here. Empty: nothing works, and `problem` says why. */
  contents: Contents[];
  problem?: RametError;
}

/** What a sweep of a store found and freed. */
export interface Swept {
  /** Published data whose object is gone. */
  checkpoints: CheckpointHandle[];
  /** Attempts that never came to a publication, and what restores and removals left. */
  rests: number;
  /** Content that no checkpoint names any more. */
  contents: number;
  freedBytes: number;
  /** Paths in the store that are none of Ramet's. */
  foreign: string[];
}
