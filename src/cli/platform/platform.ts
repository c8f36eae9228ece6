import type { Checkpoint, CheckpointManifest } from "../../api/kinds/checkpoint.ts";
import type { Sandbox, SandboxManifest } from "../../api/kinds/sandbox.ts";
import type { Settled, Wait } from "../../operations/objects.ts";
import type { VolumesFlag } from "../options.ts";
import type { SourceOptions } from "./source.ts";

type CheckpointSpec = NonNullable<CheckpointManifest["spec"]>;

/** The annotations and the spec of a Sandbox. */
export interface NewSandbox {
  annotations: Record<string, string>;
  spec: NonNullable<SandboxManifest["spec"]>;
}

export interface CreateRequest extends SourceOptions, VolumesFlag {
  paused?: boolean;
}

export interface ForkRequest extends VolumesFlag {
  paused?: boolean;
}

export interface ForkPlan {
  /** The source of the checkpoint, and its volumes. */
  capture: CheckpointSpec;
  /** Whether clones can be created while the checkpoint is captured. */
  isEarly: boolean;
  clone: (checkpointId: string) => NewSandbox;
}

export interface RollbackRequest extends VolumesFlag, Wait {
  /** A checkpoint's id or name, or a named snapshot with or without a version. */
  to: string;
  wait: boolean;
}

export interface Rollback {
  settled: Settled<Sandbox>;
  /** Describes a rollback that has succeeded, or that is not awaited. */
  sentence: string;
}

/** The requests of commands to the controllers that run, capture and clone the sandboxes of a cluster. */
export interface Platform {
  /** @throws RametError `InvalidArgument` if the controllers cannot create it */
  newSandbox: (request: CreateRequest) => Promise<NewSandbox>;
  /** The part of a Checkpoint's spec that names its source. */
  captureOf: (source: string) => CheckpointSpec;
  /** The id of a new checkpoint. Undefined: the controllers choose it when they have started. */
  idOf: (created: Checkpoint) => string | undefined;
  /** Keeps what clones of a new checkpoint need. */
  keep: (checkpoint: Checkpoint, source: Sandbox) => Promise<void>;
  /** @throws RametError `InvalidArgument` or `SandboxNotReady` if the controllers cannot fork it */
  planFork: (source: Sandbox, request: ForkRequest) => Promise<ForkPlan>;
  rollBack: (sandbox: Sandbox, request: RollbackRequest) => Promise<Rollback>;
  /** @throws RametError `InvalidArgument` if they restore no checkpoint into the sandboxes of a set */
  expectRestoreOnClaim: (from: string) => void;
  /** @throws RametError `NotSupported` if they cannot make checkpoints of exported volumes */
  expectImport: () => void;
}
