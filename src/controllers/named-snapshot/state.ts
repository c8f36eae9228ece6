import type { FoundField } from "../../api/fields/find-ignored.ts";
import type { Checkpoint, CheckpointManifest } from "../../api/kinds/checkpoint.ts";
import type { namedSnapshotConditions, NamedSnapshotStatus } from "../../api/kinds/named-snapshot-status.ts";
import type { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import type { SandboxTemplateSpec } from "../../api/kinds/sandbox-template.ts";
import type { Sandbox, SandboxManifest } from "../../api/kinds/sandbox.ts";
import type { SnapshotDigest, CopiedContent } from "../../api/snapshot/snapshot-digest.ts";
import type { RametError } from "../../base/errors.ts";
import type { CredentialKeys } from "../../backends/environment-seal.ts";
import type { Transition } from "../../kube/events.ts";
import type { OwnWrites } from "../../kube/informer.ts";
import type { StatusWriter } from "../../kube/status-writer.ts";
import type { Attempt, Attempts } from "../cluster/attempts.ts";
import type { ControllerParts } from "../cluster/controller-parts.ts";
import type { SandboxRuntime } from "../../backends/runtime.ts";
import type { Turns } from "./build-turns.ts";
import type { Lookups } from "./lookups.ts";
import type { SnapshotMetrics } from "./metrics.ts";
import type { FetchTurns } from "./steps/fetch-turns.ts";
import type { StepOutcome } from "./steps/step.ts";

export interface SnapshotState {
  snapshot: NamedSnapshot;
  desired: DesiredVersion | { problem: RametError; reason: BuildingReason };
  cloneable: ReadonlyMap<string, Checkpoint>;
  /** The Checkpoint of the desired digest, in any phase. */
  versionCheckpoint: Checkpoint | undefined;
  /** Captured states of steps that can be restored, by step digest, from any named snapshot of the namespace. */
  captured: ReadonlyMap<string, Checkpoint>;
  /** The capture of the step that ended last, in any phase. */
  stepCheckpoint: Checkpoint | undefined;
  /** The capture of the sandbox in `spec.from`. */
  sourceCheckpoint: Checkpoint | undefined;
  /** The sandbox of the current attempt of the current build. */
  builder: Sandbox | undefined;
  /** Builders of earlier attempts and builds. */
  orphans: Sandbox[];
  made: Checkpoint[];
  /** The call that runs the next step. */
  attempt: Attempt<StepOutcome> | undefined;
  /** Why the running step waits for its turn to fetch a file. */
  fetchWait: string | undefined;
  engines: EngineFacts;
  /** The fields of its SandboxTemplate without effect. */
  ignored: FoundField[];
  /** By version: the objects that refer to it, like `Sandbox a`. */
  referrers: ReadonlyMap<number, string[]>;
  /** The objects that follow the name, like `SandboxSet a`. */
  followers: string[];
  now: Date;
}

/** The facts that decide how an upgrade of the cell image affects a named snapshot. */
export interface EngineFacts {
  /** The image of new sandboxes. */
  cellImage: string;
  /** The Checkpoints with memory of another engine than that of new sandboxes, by name. */
  earlier: ReadonlySet<string>;
  /** The engine of the source. `waiting`: it is captured again too. `bound`: it is memory of another engine, and remains so. */
  source: "current" | "waiting" | "bound";
  /** Why the upgrade waits for its turn. */
  wait?: string;
}

/** The version that the spec asks for. */
export interface DesiredVersion {
  digest: SnapshotDigest;
  origin: BuildOrigin;
  /** As in the status of a version: `template/python`, `python@3`. */
  parent: string;
  copied: ReadonlyMap<number, CopiedContent>;
  /** Names of the Secrets that the source contains. */
  inheritedSecrets: string[];
  /** The inherited Secrets and those that the recipe copies. */
  secrets: string[];
  /** Time until inputs that no informer reports are read again. */
  requeueAfterMilliseconds?: number;
}

export type BuildOrigin =
  | { kind: "template"; spec: SandboxTemplateSpec }
  | { kind: "checkpoint"; checkpointId: string }
  | { kind: "sandbox"; name: string; /** The awaited state, if it is still starting. */ starting?: string };

export type BuildingReason = (typeof namedSnapshotConditions)["Building"][number];

export type BuilderBase = { steps: number } & ({ template: SandboxTemplateSpec } | { checkpointId: string });

/** The purpose of a Checkpoint. */
export type Capture =
  | { of: "source" }
  | { of: "step"; stepDigest: string; asLayer: boolean }
  /** `stepDigest`: with memory, it is also the state after the last step. `recipe`: annotations. */
  | { of: "version"; digest: string; stepDigest: string | undefined; asLayer: boolean; recipe: Record<string, string> };

export type SnapshotAction =
  | { do: "addFinalizer" }
  | { do: "removeFinalizer" }
  | { do: "createBuilder"; name: string; base: BuilderBase }
  /** Boots the builder on the layer of the first `steps`, in its Pod. */
  | { do: "bootBuilder"; builder: Sandbox; checkpointId: string; steps: number }
  | { do: "deleteSandbox"; sandbox: Sandbox }
  | ({ do: "capture"; name: string; sandboxName: string } & Capture)
  | { do: "deleteCheckpoint"; checkpoint: Checkpoint }
  /** Marks whether the current recipe has the step, so that the collector can delete the longest unneeded ones first. */
  | { do: "markStep"; checkpoint: Checkpoint; unneededSince: string | undefined }
  | { do: "startStep"; index: number; builder: Sandbox; desired: DesiredVersion; fresh: boolean }
  | { do: "keepLog"; index: number; digest: string; text: string }
  | { do: "deleteLog"; digest: string }
  | { do: "forgetStep"; index: number; builderUid: string };

export interface SnapshotPlan {
  /** Applied in order, before the status is written. */
  actions: SnapshotAction[];
  status?: NamedSnapshotStatus;
  /** Applied after the status is written: actions that must not happen unrecorded. */
  afterStatus?: SnapshotAction[];
  transitions?: Transition[];
  requeueAfterMilliseconds?: number;
}

/** How sandboxes are captured and cloned, which depends on the controllers that own them. */
export interface Cloning {
  /** @throws RametError `problemOf` the checkpoint */
  builder(
    namespace: string,
    base: BuilderBase,
  ): Pick<SandboxManifest, "spec"> & { annotations: Record<string, string> };
  captureSpec(snapshot: NamedSnapshot, capture: Capture & { sandboxName: string }): CheckpointManifest["spec"];
  /** Whether the files of steps can become layers. */
  hasLayers: boolean;
  /** Whether a finished checkpoint contains memory. */
  hasMemory(checkpoint: Checkpoint): boolean;
  /** The fields of a SandboxTemplate without effect. */
  ignoredIn(name: string, template: SandboxTemplateSpec): FoundField[];
  /** Why these controllers cannot build the snapshot at all. */
  refusal(snapshot: NamedSnapshot): RametError | undefined;
  /** Why a finished checkpoint cannot be cloned. */
  problemOf(checkpoint: Checkpoint): RametError | undefined;
  /** Keeps what clones of these checkpoints need, before their sources are deleted. */
  keep(checkpoints: readonly Checkpoint[]): Promise<void>;
}

export interface SnapshotDependencies extends Pick<
  ControllerParts,
  "client" | "informers" | "cache" | "engines" | "podOptions" | "events" | "clock" | "log"
> {
  runtime: Pick<SandboxRuntime, "guest" | "acceptsConnections">;
  /** Absent beside other controllers, where there is no client API. */
  credentialKeys?: Pick<CredentialKeys, "open">;
  cloning: Cloning;
  lookups: Lookups;
  statuses: StatusWriter<NamedSnapshot>;
  ownWrites: OwnWrites<NamedSnapshot>;
  /** Running and finished steps, by `attemptId`. */
  steps: Attempts<StepOutcome>;
  builds: Turns;
  upgrades: Turns;
  fetches: FetchTurns;
  counted?: SnapshotMetrics | undefined;
  /** Aborted when the controller stops. */
  closing: AbortSignal;
  /** Reconciles a key after an event that no informer reports. */
  enqueue: (key: string) => void;
}
