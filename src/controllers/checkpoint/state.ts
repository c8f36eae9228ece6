import type { Checkpoint, CheckpointStatus, ResolvedCheckpointSpec } from "../../api/kinds/checkpoint.ts";
import type { RametError } from "../../base/errors.ts";
import type { Pod } from "../../api/schema/pod.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import type { CheckpointRecord } from "../../backends/checkpoint-record.ts";
import type { Transition } from "../../kube/events.ts";
import type { Attempt } from "../common/attempts.ts";

/** All that a decision about one checkpoint is made from. */
export interface CheckpointState {
  checkpoint: Checkpoint;
  checkpointId: string;
  spec: ResolvedCheckpointSpec | { problem: RametError };
  source: Source;
  /** An unfinished checkpoint of the same Pod that was first. */
  earlierCapture: Checkpoint | undefined;
  /** The call that takes it. */
  capture: Attempt<CheckpointRecord> | undefined;
  now: Date;
}

/** What is to be captured; or why it cannot be. `hasEnded`: nothing is left that could answer or publish. */
export type Source = CapturableSource | { problem: RametError; hasEnded?: true };

export interface CapturableSource {
  sandbox: Sandbox;
  pod: Pod;
}

/** A checkpoint that is about to be taken. */
export interface CheckpointCapture {
  checkpoint: Checkpoint;
  checkpointId: string;
  source: CapturableSource;
  spec: ResolvedCheckpointSpec;
}

export type CheckpointAction =
  | { do: "startCapture"; source: CapturableSource; spec: ResolvedCheckpointSpec }
  /** In place of the cut, if one runs. The Pod is gone that it was begun with; the data may be there all the same. */
  | { do: "findPublished"; otherwise: RametError }
  | { do: "stopSource"; source: CapturableSource }
  | { do: "deleteCheckpoint" }
  | { do: "removeData" };

export interface CheckpointPlan {
  /** Carried out in order, before the status is written. */
  actions: CheckpointAction[];
  status?: CheckpointStatus;
  transitions?: Transition[];
  requeueAfterMilliseconds?: number;
}
