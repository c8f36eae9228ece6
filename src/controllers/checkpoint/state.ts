import type { ResolvedCheckpointSpec } from "../../api/kinds/checkpoint-spec.ts";
import type { Checkpoint, CheckpointStatus } from "../../api/kinds/checkpoint.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import type { VolumeImport } from "../../api/kinds/volume-import.ts";
import type { VolumeClaim } from "../../api/pod/volume-claims.ts";
import type { Pod } from "../../api/schema/pod.ts";
import type { CheckpointRecord } from "../../backends/checkpoint-record.ts";
import type { SandboxRef } from "../../backends/runtime.ts";
import type { RametError } from "../../base/errors.ts";
import type { Transition } from "../../kube/events.ts";
import type { StatusWriter } from "../../kube/status-writer.ts";
import type { OwnWrites } from "../../kube/informer.ts";
import type { Preparation } from "../../kube/volumes/preparation.ts";
import type { Attempt } from "../cluster/attempts.ts";
import type { CellParts, ClusterParts, DataParts, ProcessParts } from "../cluster/controller-parts.ts";
import type { DataFinding } from "../cluster/data-findings.ts";
import type { CaptureTurns, Captures } from "./captures.ts";
import type { Admission, CheckpointUsage } from "./usage.ts";

/** The input of a plan for one checkpoint. */
export interface CheckpointState {
  checkpoint: Checkpoint;
  checkpointId: string;
  spec: ResolvedCheckpointSpec | { problem: RametError };
  source: Source;
  /** An unfinished checkpoint of the same Pod that comes first. */
  earlierCapture: Checkpoint | undefined;
  /** What a local cluster prepares before it can capture volumes. Only read before such a capture. */
  preparation: Preparation | undefined;
  /** The call that takes the checkpoint. */
  capture: Attempt<CheckpointRecord> | undefined;
  /** The Secrets whose values the checkpoint can contain, once it is captured. */
  secrets: string[];
  /** The volumes of the source that are PersistentVolumeClaims, once it is captured. */
  volumes: VolumeClaim[];
  /** The findings of sweeps and restores about its data. */
  finding: DataFinding | undefined;
  /** The answer of the namespace's quota. Set before a capture, and after it if the source keeps running. */
  quota: Admission;
  now: Date;
}

/**
 * The sandbox to capture, or why it cannot be captured. `hasEnded`: the cell can no longer respond or publish. `isTemporary`: the
 * sandbox starts, or it runs and is not ready or is being paused.
 */
export type Source =
  | CapturableSource
  | StoredSource
  | { volumeImport: VolumeImport }
  | { problem: RametError; hasEnded?: true; isTemporary?: true };

export interface CapturableSource {
  sandbox: Sandbox;
  pod: Pod;
}

/** Data that is stored already: that of the checkpoint that holds a paused sandbox. The new Checkpoint shares it. */
export interface StoredSource {
  /** The id under which the data is stored. */
  dataId: string;
  sandboxName: string;
  /** The paused sandbox, with its claims; undefined: it does not exist any more. */
  sandbox: SandboxRef | undefined;
}

/** A checkpoint to take, and its source. */
export interface CheckpointCapture {
  checkpoint: Checkpoint;
  checkpointId: string;
  source: CapturableSource;
  spec: ResolvedCheckpointSpec;
  /** The limit for the size of the data. */
  maxBytes: number | undefined;
}

export type CheckpointAction =
  | { do: "startCapture"; source: CapturableSource; spec: ResolvedCheckpointSpec; maxBytes: number | undefined }
  | { do: "shareStored"; source: StoredSource; spec: ResolvedCheckpointSpec }
  | { do: "startImport"; volumeImport: VolumeImport }
  /** Removes data that exceeds the quota of the namespace. */
  | { do: "discard"; record: CheckpointRecord }
  /** Replaces a running capture. The Pod that the checkpoint started with has ended, but its data may be published. */
  | { do: "findPublished"; otherwise: RametError }
  | { do: "stopSource"; source: CapturableSource }
  | { do: "deleteCheckpoint" }
  /** Writes the status meanwhile. */
  | { do: "removeData"; status: CheckpointStatus };

export interface CheckpointPlan {
  /** Applied in order, before the status is written. */
  actions: CheckpointAction[];
  status?: CheckpointStatus;
  transitions?: Transition[];
  requeueAfterMilliseconds?: number;
}

export interface CheckpointDependencies
  extends
    Omit<ClusterParts, "sandboxWrites">,
    Omit<DataParts, "quotas">,
    Pick<CellParts, "runtime" | "departures" | "nodes">,
    Pick<ProcessParts, "clock" | "log"> {
  statuses: StatusWriter<Checkpoint>;
  ownWrites: OwnWrites<Checkpoint>;
  captures: Captures;
  turns: CaptureTurns;
  usage: CheckpointUsage;
  readPreparation: () => Promise<Preparation | undefined>;
}
