import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import type { RametError } from "../../base/errors.ts";
import type { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import type { namedSnapshotConditions, NamedSnapshotStatus } from "../../api/kinds/named-snapshot-status.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import type { SandboxTemplateSpec } from "../../api/kinds/sandbox-template.ts";
import type { SnapshotDigest } from "../../api/snapshot/snapshot-digest.ts";
import type { CopiedContent } from "../../api/snapshot/snapshot-inputs.ts";
import type { Transition } from "../../kube/events.ts";
import type { Attempt } from "../common/attempts.ts";
import type { StepOutcome } from "./steps/step.ts";

/** All that a decision about one named snapshot is made from. */
export interface SnapshotState {
  snapshot: NamedSnapshot;
  wanted: Wanted | { problem: RametError; reason: BuildingReason };
  /** The Checkpoints of versions that can be cloned, by their names. */
  standing: ReadonlyMap<string, Checkpoint>;
  /** Of the wanted digest, whatever its state. */
  versionCheckpoint: Checkpoint | undefined;
  /** Captured states of steps that can be restored, by the step's digest; of any named snapshot of the namespace. */
  captured: ReadonlyMap<string, Checkpoint>;
  /** The capture of the step that ended last, whatever its state. */
  stepCheckpoint: Checkpoint | undefined;
  /** The capture of the sandbox from which the version is built. */
  sourceCheckpoint: Checkpoint | undefined;
  /** That of the present attempt of the present build. */
  builder: Sandbox | undefined;
  /** Builders of earlier attempts and builds. */
  strays: Sandbox[];
  /** Checkpoints that this snapshot has made. */
  made: Checkpoint[];
  /** The call that carries out the next step. */
  attempt: Attempt<StepOutcome> | undefined;
  /** By version: who refers to it, in words. */
  referrers: ReadonlyMap<number, string[]>;
  /** Who follows the name, in words. */
  followers: string[];
  now: Date;
}

/** What is to be built. */
export interface Wanted {
  digest: SnapshotDigest;
  origin: BuildOrigin;
  /** As a version tells it: `template/python`, `python@3`. */
  parent: string;
  copied: ReadonlyMap<number, CopiedContent>;
  /** Names of the Secrets that are in what it is built from. */
  inheritedSecrets: string[];
  /** These, and those that its recipe copies. */
  secrets: string[];
  /** When to look again at what no informer tells of. */
  requeueAfterMilliseconds?: number;
}

export type BuildOrigin =
  | { kind: "template"; spec: SandboxTemplateSpec }
  | { kind: "checkpoint"; checkpointId: string }
  | { kind: "sandbox"; name: string };

export type BuildingReason = (typeof namedSnapshotConditions)["Building"][number];

export type BuilderBase = { steps: number } & ({ template: SandboxTemplateSpec } | { checkpointId: string });

/** What a Checkpoint is taken for. */
export type Capture =
  | { of: "source" }
  | { of: "step"; stepDigest: string }
  /** With memory, it is also the state after the last step. */
  | { of: "version"; digest: string; stepDigest: string | undefined };

export type SnapshotAction =
  | { do: "addFinalizer" }
  | { do: "removeFinalizer" }
  | { do: "createBuilder"; name: string; base: BuilderBase }
  | { do: "deleteSandbox"; sandbox: Sandbox }
  | ({ do: "capture"; name: string; sandboxName: string } & Capture)
  | { do: "deleteCheckpoint"; checkpoint: Checkpoint }
  /** Whether the present recipe has the step: by this the collector knows what was needed longest ago. */
  | { do: "markStep"; checkpoint: Checkpoint; unneededSince: string | undefined }
  | { do: "startStep"; index: number; builder: Sandbox; wanted: Wanted; fresh: boolean }
  | { do: "keepLog"; index: number; digest: string; text: string }
  | { do: "deleteLog"; digest: string }
  | { do: "forgetStep"; index: number; builderUid: string };

export interface SnapshotPlan {
  /** Carried out in order, before the status is written. */
  actions: SnapshotAction[];
  status?: NamedSnapshotStatus;
  /** Carried out only when the status says so: what must not happen unrecorded. */
  afterStatus?: SnapshotAction[];
  transitions?: Transition[];
  requeueAfterMilliseconds?: number;
}
