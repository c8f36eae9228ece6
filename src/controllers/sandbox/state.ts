import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import type { Sandbox, SandboxStatus } from "../../api/kinds/sandbox.ts";
import { initRequestDigest } from "../../api/names/init-request.ts";
import type { RollbackRequest } from "../../api/names/rollback-request.ts";
import type { PodTemplateSpec } from "../../api/schema/pod-template.ts";
import type { Pod } from "../../api/schema/pod.ts";
import type { RestoreSource } from "../../backends/checkpoint-parts.ts";
import type { Started } from "../../backends/runtime.ts";
import type { RametError } from "../../base/errors.ts";
import type { Transition } from "../../kube/events.ts";
import type { StatusWriter } from "../../kube/status-writer.ts";
import type { Attempt, Attempts, SlowStart } from "../common/attempts.ts";
import type { ControllerParts } from "../common/controller-parts.ts";
import type { Origin } from "../common/origin.ts";
import type { ResolvedTemplate } from "../common/resolve-template.ts";
import type { NewPods } from "./new-pods.ts";

/** All that a decision about one sandbox is made from. */
export interface SandboxState {
  sandbox: Sandbox;
  /** The sandbox's own Pod. */
  pod: Pod | undefined;
  /** A Pod of the sandbox's name that is somebody else's. */
  foreignPod: Pod | undefined;
  template: ResolvedTemplate | { problem: RametError };
  /** Where the sandbox's contents come from when its Pod is made. */
  origin: Origin;
  /** A rollback that is asked for and has not been answered, and from what it would restore. */
  rollback: { request: RollbackRequest; origin: Origin } | undefined;
  /** The call that boots or restores what is in `pod`. */
  start: Attempt<StartOutcome> | undefined;
  /** The call that gives the running sandbox the environment that its annotation asks for by now. */
  adoption: Attempt<{ generation: number }> | undefined;
  /** The call that has a checkpoint take the place of what runs in `pod`, for the rollback that is asked for. */
  restoreInPlace: Attempt<StartOutcome> | undefined;
  /** The wait until all memory of the clone in `pod` is in. */
  load: Attempt<void> | undefined;
  /** The checkpoint of the pause that is under way or in force. */
  pauseCheckpoint: Checkpoint | undefined;
  /** Checkpoints of earlier pauses. */
  orphans: Checkpoint[];
  /** A checkpoint that somebody else takes of this sandbox just now. */
  otherCheckpoint: Checkpoint | undefined;
  /** Until the start takes so long that a status should say for what it waits; 0: it does. */
  slowInMilliseconds: number;
  now: Date;
}

export interface StartOutcome extends Started {
  /** From the Pod's creation; absent if an earlier controller created it. */
  bootMilliseconds?: number;
  /** The id of the checkpoint that it was restored from. */
  checkpointId?: string;
  /** The digest of the init-runtime-request that it got its environment from. */
  initRequest?: string;
}

/** What is to be done. All at once; then the status is written. */
export type SandboxAction =
  | { do: "addFinalizer"; borrowed?: ResolvedTemplate; resolvedCheckpoint?: string }
  | { do: "removeFinalizer" }
  | { do: "createPod"; template: ResolvedTemplate; start: "boot" | "wait" }
  | { do: "deletePod"; pod: Pod }
  | { do: "startSandbox"; pod: Pod; template: PodTemplateSpec; source: RestoreSource | undefined }
  | { do: "restoreSandboxInPlace"; pod: Pod; template: PodTemplateSpec; source: RestoreSource; request: string }
  | { do: "adoptIdentity"; pod: Pod; template: PodTemplateSpec }
  | { do: "awaitMemory"; pod: Pod }
  | { do: "createPauseCheckpoint"; persistentContents: readonly string[] }
  | { do: "deleteCheckpoint"; checkpoint: Checkpoint }
  | { do: "deleteSandbox" }
  | { do: "setPaused"; shutdownTime?: string };

export interface SandboxPlan {
  actions: SandboxAction[];
  /** The whole status, if it may have changed. */
  status?: SandboxStatus;
  transitions?: Transition[];
  /** When the sandbox is reconciled again although nothing has changed. At least 1. */
  requeueAfterMilliseconds?: number;
}

/** Under which the hand-over of what a sandbox asks for by now is known: another request is another hand-over. */
export function adoptionId(sandbox: Sandbox, pod: Pod): string {
  return `${pod.metadata.uid}/${initRequestDigest(sandbox) ?? ""}`;
}

/** Whether the guest has been given another environment than the one that is asked for. */
export function wantsAdoption(sandbox: Sandbox): boolean {
  return initRequestDigest(sandbox) !== sandbox.status?.ramet?.initRequest;
}

export interface SandboxDependencies extends ControllerParts {
  statuses: StatusWriter<Sandbox>;
  starts: Attempts<StartOutcome>;
  /** Identities for sandboxes that run. */
  adoptions: Attempts<{ generation: number }>;
  /** Checkpoints that take the place of what runs. */
  restoresInPlace: Attempts<StartOutcome>;
  /** By the UID of a Pod: the wait until the memory of its clone is in. */
  loads: Attempts<void>;
  newPods: NewPods;
  slowStart: SlowStart;
  /** Requeues a key after a change that no informer reports. */
  enqueue: (key: string) => void;
}
