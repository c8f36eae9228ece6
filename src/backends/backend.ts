import type { VolumeSnapshotRequest } from "../api/kinds/checkpoint-spec.ts";
import type { CheckpointPart, PartContents, RametCheckpointStatus } from "../api/kinds/checkpoint.ts";
import type { ImportedVolume } from "../api/kinds/volume-import.ts";
import type { RametError } from "../base/errors.ts";
import type { ClaimSpec } from "../kube/volumes/volumes.ts";
import type { SandboxRef, Started } from "./runtime.ts";

/**
 * One way to capture and restore parts of checkpoints. Every method can be repeated: the caller chooses the names, and a
 * repeated call finds the result of the first one. Every backend passes the suite in `test/contract/backends`.
 */
export interface Backend {
  /** The name in the records of its parts. Stable across releases. */
  readonly name: string;
  /** Only a backend that runs sandboxes has this. */
  readonly holds?: SandboxHolds;
  /** Reports what this backend can capture here, or why it can capture nothing. */
  probe(): Promise<Probe>;
  /**
   * Captures parts of a sandbox. If it fails, the sandbox continues as before.
   * @throws RametError `SandboxNotReady`; `Conflict` during another capture of the sandbox; `Unavailable` when the sandbox
   *   cannot be reached; `Timeout` when it does not respond; `StoreFull`, `StoreReadOnly`, `StoreUnavailable`,
   *   `CheckpointTooLarge`, `QuotaExceeded`, `EngineFailed`
   */
  capture(request: CaptureRequest): Promise<Capture>;
  /**
   * Resolves when all data that this backend captured for the checkpoint is durable.
   * @throws RametError `CheckpointLost` if there is none, and none is being written
   */
  whenReady(name: CheckpointName, found?: { isAdopted?: boolean }): Promise<Capture>;
  /**
   * Completes the spec of a new claim so that it gets the data of a volume. Only a backend that captures volumes has this. The claim
   * exists before the Pod of the clone starts.
   * @throws RametError `CheckpointLost`; `NeedNotMet` if the claim's StorageClass cannot have the data
   */
  fillClaim?(request: FillClaimRequest): Promise<ClaimSpec>;
  /**
   * Makes snapshots that exist outside of the namespace the volumes of a checkpoint. Only a backend that captures volumes has this. The
   * caller has verified that the user may import.
   * @throws RametError `VolumeNotImported`, `ImportsDisabled`, `NotSupported`, `AlreadyExists`, `Unavailable`
   */
  importVolumes?(request: ImportVolumesRequest): Promise<Capture>;
  /**
   * Restores a part into a sandbox that waits for its contents. A part with files starts the sandbox: the call then resolves
   * when the clone responds under its own identity.
   * @throws RametError `CheckpointLost`, `NeedNotMet`, `CpuFeaturesMissing`, `EngineFailed`, `HandoverFailed`, `Timeout`, `Unavailable`
   */
  clone(request: CloneRequest): Promise<Started>;
  /**
   * Stops what runs in a sandbox and replaces it by a part. Problems of the part are found before anything is stopped.
   * @throws RametError as `clone`; `SandboxNotReady`; `Conflict` during another operation
   */
  restoreInPlace(request: RestoreInPlaceRequest): Promise<Started>;
  /**
   * Resolves when all memory of a running clone is loaded.
   * @throws RametError `Unavailable` if the sandbox cannot be reached, `Timeout` if loading does not end
   */
  untilLoaded(target: SandboxRef, signal?: AbortSignal): Promise<void>;
  /** Removes everything that this backend captured for a checkpoint. Missing data is no error; clones are not affected. */
  remove(name: CheckpointName): Promise<void>;
  /**
   * Frees data that crashes and lost objects left behind. It calls `liveness` right before each removal, and ends if that
   * throws.
   */
  sweep?(liveness: (name: CheckpointName) => Promise<CheckpointLiveness>, signal: AbortSignal): Promise<Swept>;
  /** Whether a sweep would find data of the checkpoint. Cheap. @throws RametError when it cannot tell */
  has?(name: CheckpointName): Promise<boolean>;
}

/** A backend that can stop a sandbox from changing its volumes while another backend captures them. */
export interface SandboxHolds {
  /**
   * Pauses a sandbox until its capture by this backend, or until `release`. It resumes without a call after the time, so that nobody can
   * leave it paused.
   * @throws RametError `SandboxNotReady`, `Conflict`, `Unavailable`, `Timeout`
   */
  hold(request: HoldOfSandbox): Promise<unknown>;
  /** Resumes the sandbox if it is still paused for this checkpoint. @returns how long it was paused */
  release(request: Omit<HoldOfSandbox, "milliseconds">): Promise<{ pausedMilliseconds?: number | undefined }>;
  /** Writes to disk what the running sandbox has written to its volumes. @throws RametError as `hold` */
  sync(source: SandboxRef, signal?: AbortSignal): Promise<unknown>;
}

export interface HoldOfSandbox {
  name: CheckpointName;
  source: SandboxRef;
  milliseconds: number;
  signal?: AbortSignal | undefined;
}

/** Identifies a checkpoint's data, across restarts too. The namespace never comes from a record: it is the tenant's boundary. */
export interface CheckpointName {
  namespace: string;
  checkpointId: string;
}

/**
 * The state of a checkpoint in the Kubernetes API. `unfinished` and `finished`: its object exists, and its phase is not or is
 * terminal; `absent`: it has no object.
 */
export type CheckpointLiveness = "unfinished" | "finished" | "absent";

export interface CaptureRequest {
  name: CheckpointName;
  /** With the claims to capture. */
  source: SandboxRef;
  contents: PartContents;
  volumeSnapshot?: VolumeSnapshotRequest | undefined;
  /** False: the sandbox stays paused afterwards and waits to be stopped. */
  keepRunning: boolean;
  /** The sandbox is paused by `SandboxHolds.hold` for this checkpoint. @throws RametError `Timeout` if the pause is over */
  held?: true | undefined;
  /** Capture the changed files as a layer, without a pause. Only a backend that captures files knows it. */
  asLayer?: true | undefined;
  /** Look for programs whose clones repeat random numbers. */
  findRandomPrograms?: true | undefined;
  /** The limit for the size of the data. A backend that learns the size before it publishes fails with `QuotaExceeded`. */
  maxBytes?: number | undefined;
  /** Ends the wait for a response. A sandbox that still runs completes the capture. */
  signal?: AbortSignal;
}

export interface Capture {
  parts: CheckpointPart[];
  /** Whether the data is durable; otherwise `whenReady` waits for it. */
  isDurable: boolean;
  /** The commands that ran in the sandbox, and measurements, as far as a backend knows them. */
  details?: CaptureDetails;
}

export type CaptureDetails = Pick<
  RametCheckpointStatus,
  | "templateDigest"
  | "template"
  | "image"
  | "imageDigest"
  | "addedBytes"
  | "pausedMilliseconds"
  | "consistencyNote"
  | "groupNote"
  | "phases"
>;

export interface CloneRequest {
  name: CheckpointName;
  part: CheckpointPart;
  target: SandboxRef;
  environment: Record<string, string>;
  /** Ends the wait for the cell, not its operation. */
  signal?: AbortSignal;
}

export interface ImportVolumesRequest {
  name: CheckpointName;
  volumes: readonly ImportedVolume[];
  /** Whether the data is deleted with the last checkpoint of the cluster that has it. */
  takesOwnership: boolean;
  /** Ends the wait. A repeat, or `remove`, finds what exists by then. */
  signal?: AbortSignal;
}

export interface FillClaimRequest {
  name: CheckpointName;
  part: CheckpointPart;
  /** The spec from the clone's template. */
  spec: ClaimSpec;
}

export interface RestoreInPlaceRequest extends CloneRequest {
  /** Identifies the request: a repeated call with the same value returns the first result. */
  request: string;
  /** Whether to report which programs were ended, and which run then. It takes some milliseconds. @default false */
  reportsPrograms?: true | undefined;
}

export interface Probe {
  /** The contents that one part may have. Empty: nothing works here, and `problem` is the reason. */
  contents: PartContents[];
  /** Beside contents, it is a warning. */
  problem?: RametError;
}

/** The findings of a sweep, and the space that it freed. */
export interface Swept {
  /** Data of checkpoints without an object. */
  checkpoints: CheckpointName[];
  /** The other checkpoints with data. */
  kept: CheckpointName[];
  /** Files left by interrupted captures, restores and removals. */
  orphans: number;
  /** Contents that no checkpoint refers to. */
  contents: number;
  freedBytes: number;
  /** Paths in the store that do not belong to Ramet. */
  foreign: string[];
}
