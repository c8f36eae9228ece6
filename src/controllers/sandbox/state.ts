import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import type { EgressPolicy } from "../../api/wire/cell-api.ts";
import type { Credentials } from "../../api/credentials/credentials.ts";
import type { FoundField } from "../../api/fields/find-ignored.ts";
import type { ResolvedImage } from "../../api/pod/resolved-image.ts";
import type { Sandbox, SandboxStatus } from "../../api/kinds/sandbox.ts";
import { initRequestDigest } from "../../api/names/init-request.ts";
import type { RollbackRequest } from "../../api/names/rollback-request.ts";
import type { PodTemplateSpec } from "../../api/schema/pod-template.ts";
import type { Pod } from "../../api/schema/pod.ts";
import type { RestoreSource } from "../../backends/checkpoint-parts.ts";
import type { SandboxActivity } from "../../api/schema/metadata.ts";
import type { SandboxRef, Started } from "../../backends/runtime.ts";
import type { RametError } from "../../base/errors.ts";
import type { Transition } from "../../kube/events.ts";
import type { DesiredEgress } from "../origin/egress.ts";
import type { Attempt } from "../cluster/attempts.ts";
import type { Departure } from "../cluster/departures.ts";
import type { Origin } from "../origin/origin.ts";
import type { CpuPlan } from "../nodes/plan-cpus.ts";
import type { ResolvedTemplate } from "../origin/resolve-template.ts";
import type { RestoredVolumes } from "../volumes/restored-volumes.ts";
import type { KnownCell } from "./former-pods.ts";
import type { PodImage } from "./pod-image.ts";

export interface SandboxState extends CellCallStates {
  sandbox: Sandbox;
  /** The sandbox's own Pod. */
  pod: Pod | undefined;
  /** A Pod of the sandbox's name that the sandbox does not own. */
  foreignPod: Pod | undefined;
  template: ResolvedTemplate | { problem: RametError };
  /** Where the contents of a new Pod come from. */
  origin: Origin;
  /** On which nodes `origin` cannot be restored. */
  cpus: CpuPlan;
  /** The claims that the volumes of a new Pod mount instead of those of the template. */
  volumes: RestoredVolumes;
  /** Claims of a sandbox without a Pod that were deleted. */
  lostClaims: string[];
  image: PodImage;
  /** The requested rollback that has not been answered, its checkpoint, and whether the Pod lacks a CPU feature or room for it. */
  rollback: { request: RollbackRequest; origin: Origin; needsNewPod: boolean } | undefined;
  /** The policy that the sandbox should have. */
  egress: DesiredEgress;
  /** The credentials that are added to requests of the sandbox, or why they cannot be read. */
  credentials: WantedCredentials;
  /** The checkpoint that has ended `pod`, because its `keepRunning` is false. */
  stoppedBy: string | undefined;
  /** Why and when the sandbox leaves its node, or resumes after that. Absent: neither. */
  departure?: Departure | undefined;
  /** Whether the node of its Pod does not respond. @default no */
  isNodeSilent?: boolean;
  /** Whether its Pod waits for a node because it avoids one that stays after all. @default no */
  avoidsInVain?: boolean;
  /** Why no node can take the Pod that continues it, however long that waits. Absent: a node may. */
  noNode?: string | undefined;
  /** The leaving nodes that its next Pod avoids. @default none */
  leavingNodes?: readonly string[];
  pauseCheckpoint: Checkpoint | undefined;
  /** The checkpoint that will hold the paused sandbox after the requested rollback. */
  rolledBackPause: Checkpoint | undefined;
  /** Checkpoints of earlier pauses. */
  orphans: Checkpoint[];
  /** An unfinished checkpoint of this sandbox that is not for a pause. */
  otherCheckpoint: Checkpoint | undefined;
  /** Its automatic checkpoints. @default none */
  automatic?: readonly Checkpoint[];
  /** Whether its node takes another automatic checkpoint now. @default true */
  hasTurn?: boolean;
  /** Without a Pod: the cells of earlier ones in which the sandbox may still run. @default none */
  formerCells?: readonly KnownCell[];
  /** The cell of the Pod, while the sandbox is being started there. */
  startingCell?: KnownCell | undefined;
  /** The UIDs of the `removedPods` of its status that were stopped. @default none */
  removedStopped?: ReadonlySet<string>;
  /** The fields without effect. */
  ignored: FoundField[];
  /** Until the start counts as slow, and the status reports why it waits; 0: it is slow. */
  slowInMilliseconds: number;
  /** Until a sandbox of a set or a build fails because its image cannot be pulled; undefined: nothing is wrong with the image. */
  pullTimeoutInMilliseconds: number | undefined;
  now: Date;
}

/** The results of calls to a cell. */
export interface CallOutcomes {
  /** Boots or restores the sandbox in the Pod. */
  start: StartOutcome;
  /** Gives the running sandbox the requested environment. */
  adoption: { generation: number };
  /** Restores the checkpoint of the requested rollback in place. */
  restoreInPlace: StartOutcome;
  /** The last call that gave the cell a policy, which may have been another one. */
  egressCall: EgressOutcome;
  /** The last call that gave the cell credentials. */
  credentialsCall: CredentialsOutcome;
  /** Waits until all memory of the clone is loaded. */
  load: undefined;
  /** Tells the cell that the end of its Pod is intended. */
  end: undefined;
  /** Asks the cell what the sandbox has done since its last capture. */
  activity: SandboxActivity | undefined;
}

/** The calls that run or have ended for one Pod. */
export type CellCallStates = { [Kind in keyof CallOutcomes]: Attempt<CallOutcomes[Kind]> | undefined };

export interface StartOutcome extends Started {
  /** Since the Pod's creation; absent if an earlier controller process created it. */
  bootMilliseconds?: number;
  /** The public key of the cell. */
  cellKey?: string;
  checkpointId?: string;
  /** The digest of the init-runtime-request that its environment came from. */
  initRequest?: string;
}

export interface EgressOutcome {
  digest: string;
  /** Why the cell has refused the policy. */
  error?: RametError;
}

export interface CredentialsOutcome {
  /** The digest of the references that were resolved. */
  digest: string;
  /** When they are resolved again: a Secret may have changed, or a token is about to expire. */
  again: Date;
  /** Why the references could not be resolved now. */
  error?: RametError;
}

/** The credentials that a sandbox should have. Without values: only references, and texts that a client has sealed. */
export interface WantedCredentials {
  /** Undefined: none. */
  credentials: Credentials | undefined;
  digest: string;
  problem?: RametError;
}

/** One step. The actions of a plan run concurrently; the status is written after them. */
export type SandboxAction =
  | {
      do: "addFinalizer";
      borrowed?: ResolvedTemplate;
      resolvedCheckpoint?: string;
      claims?: ReadonlyMap<string, string>;
    }
  /** Before that, deletes the claims that no other sandbox uses. */
  | { do: "removeFinalizer"; claims: readonly string[] }
  /** `source`: what is restored in the Pod, whose memory may need an earlier engine. */
  | {
      do: "createPod";
      template: ResolvedTemplate;
      start: "boot" | "wait";
      source: RestoreSource | undefined;
      egress: EgressPolicy;
      volumes: RestoredVolumes;
      image: ResolvedImage | RametError | undefined;
      avoided: CpuPlan["avoided"];
    }
  /** `isUnused`: nothing runs in it, so its node need not confirm its end. */
  | { do: "deletePod"; pod: Pod; isUnused?: boolean }
  /** Nobody captures the sandbox before its Pod ends. */
  | { do: "intendEnd"; pod: Pod }
  | { do: "startSandbox"; pod: Pod; template: PodTemplateSpec; source: RestoreSource | undefined }
  | { do: "restoreSandboxInPlace"; pod: Pod; template: PodTemplateSpec; source: RestoreSource; request: string }
  | { do: "adoptIdentity"; pod: Pod; template: PodTemplateSpec }
  | { do: "awaitMemory"; pod: Pod }
  | { do: "readActivity"; pod: Pod }
  | { do: "createAutomaticCheckpoint"; name: string; persistentContents: readonly string[] }
  /** A Pod of the sandbox was removed, and may still run where nobody can see it. */
  | { do: "stopUnseen"; target: SandboxRef }
  | { do: "forgetUnseen"; podUid: string }
  | { do: "setEgress"; pod: Pod; policy: EgressPolicy; digest: string }
  | { do: "setCredentials"; pod: Pod; credentials: Credentials | undefined; digest: string }
  /** `stored`: the sandbox shall continue from this checkpoint when it is resumed, as the rollback with the digest requests. */
  | {
      do: "createPauseCheckpoint";
      persistentContents: readonly string[];
      isOfDisruption?: true;
      stored?: { digest?: string; source: RestoreSource };
    }
  /** Keeps the claims of the source for a sandbox that has no Pod yet. */
  | { do: "shareClaims"; claims: readonly string[] }
  /** Deletes those that no other sandbox uses. */
  | { do: "releaseClaims"; claims: readonly string[] }
  | { do: "deleteCheckpoint"; checkpoint: Checkpoint }
  | { do: "deleteSandbox" }
  /** `shutdownTime`: both timers; null: none. */
  | { do: "setPaused"; shutdownTime?: string | null; keepsFilesOnly?: boolean };

export interface SandboxPlan {
  actions: SandboxAction[];
  /** The whole status, if it may have changed. */
  status?: SandboxStatus;
  transitions?: Transition[];
  /** When the sandbox is reconciled again although nothing has changed. At least 1. */
  requeueAfterMilliseconds?: number;
  /** It gives up a sandbox that nobody has claimed: nothing is done if somebody has claimed it since. */
  isOfUnclaimed?: boolean;
}

/** What a checkpoint of a pause contains. */
export function contentsOfPause({ sandbox, template }: Pick<SandboxState, "sandbox" | "template">): readonly string[] {
  const { persistentContents = [] } = "problem" in template ? sandbox.spec : template.contents;
  return persistentContents;
}

/** Whether the guest's environment differs from the requested one. */
export function isAdoptionPending(sandbox: Sandbox): boolean {
  return initRequestDigest(sandbox) !== sandbox.status?.ramet?.initRequest;
}
