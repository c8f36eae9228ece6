import type { Checkpoint, CheckpointStatus, ResolvedCheckpointSpec } from "../../api/kinds/checkpoint.ts";
import type { RametError } from "../../base/errors.ts";
import type { Pod } from "../../api/schema/pod.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import type { CheckpointRecord } from "../../backends/checkpoint-record.ts";
import type { Transition } from "../../kube/events.ts";
import type { Attempt } from "../common/attempts.ts";

/** The input of a plan for one checkpoint. */
export interface CheckpointState {
  checkpoint: Checkpoint;
  checkpointId: string;
  spec: ResolvedCheckpointSpec | { problem: RametError };
  source: Source;
  /** An unfinished checkpoint of the same Pod that comes first. */
  earlierCapture: Checkpoint | undefined;
  /** The call that takes the checkpoint. */
  capture: Attempt<CheckpointRecord> | undefined;
  now: Date;
}

/** The sandbox to capture, or why it cannot be captured. `hasEnded`: the cell can no longer respond or publish. */
export type Source = CapturableSource | { problem: RametError; hasEnded?: true };

export interface CapturableSource {
  sandbox: Sandbox;
  pod: Pod;
}

/** A checkpoint to take, and its source. */
export interface CheckpointCapture {
  checkpoint: Checkpoint;
  checkpointId: string;
  source: CapturableSource;
  spec: ResolvedCheckpointSpec;
}

export type CheckpointAction =
  | { do: "startCapture"; source: CapturableSource; spec: ResolvedCheckpointSpec }
  /** Replaces a running capture. The Pod that the checkpoint started with has ended, but its data may be published. */
  | { do: "findPublished"; otherwise: RametError }
  | { do: "stopSource"; source: CapturableSource }
  | { do: "deleteCheckpoint" }
  | { do: "removeData" };

export interface CheckpointPlan {
  /** Applied in order, before the status is written. */
  actions: CheckpointAction[];
  status?: CheckpointStatus;
  transitions?: Transition[];
  requeueAfterMilliseconds?: number;
}
