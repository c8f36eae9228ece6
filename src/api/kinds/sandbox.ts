import * as z from "zod";
import { defineKind } from "../schema/kind.ts";
import {
  Capacity,
  Conditions,
  ObservedGeneration,
  openString,
  ReplacedPrograms,
  StatusMessage,
  Time,
  WritableLayer,
} from "../schema/metadata.ts";
import { OptionalFlag, OptionalText, OptionalTexts, int32, withRules } from "../schema/rules.ts";
import { Problem, Problems } from "../schema/problem.ts";
import {
  contentFields,
  oneTemplate,
  PauseStrategy,
  Runtimes,
  sandboxName,
  selectedVolumes,
  templateFields,
} from "./sandbox-parts.ts";

export const sandboxPhases = [
  "Pending",
  "Running",
  "Paused",
  "Resuming",
  "Upgrading",
  "Succeeded",
  "Failed",
  "Recycling",
  "Terminating",
] as const;
export type SandboxPhase = (typeof sandboxPhases)[number];

/**
 * Condition types. They and their reasons are those of OpenKruise Agents, except the types that are Ramet's own. For events that it
 * does not have, such as a failed restore, the reason is the code of the `RametError`.
 */
export type SandboxConditionType =
  /** A paused sandbox has it not: it is as requested. */
  | "Ready"
  /** Ramet's own: True if waiting does not make the sandbox ready, with the reason of `Ready`. Other kinds have it too. */
  | "Stalled"
  | "SandboxPaused"
  | "SandboxResumed"
  /** Ramet's own: whether all memory of a clone or a resumed sandbox is loaded. The sandbox responds before that. */
  | "MemoryLoaded"
  /** Ramet's own: whether the cell has the egress rules of the namespace, the template and the sandbox. */
  | "EgressApplied"
  /** Ramet's own: whether the cell has the credentials. */
  | "CredentialsApplied"
  /** Ramet's own: False while automatic checkpoints (checkpoint-every) fail, or cannot be taken. */
  | "CheckpointsTaken"
  /** Ramet's own: False if the registry could not be asked, for a sandbox whose template has a command. */
  | "ImageResolved"
  | "RuntimeInitialized"
  /** Ramet's own: False if parts of the template that inject envd were skipped, because the guest serves its interface. */
  | "AgentRuntimeInjected"
  /** Ramet's own: True if fields of the sandbox, or of its template, have no effect. Other kinds have it too. */
  | "FieldsIgnored"
  /** Ramet's own: the result of the last requested rollback. A refused rollback does not change the sandbox. */
  | "RolledBack";

const UpgradeAction = z.object({
  exec: z
    .object({
      command: OptionalTexts.describe("The program and its arguments."),
    })
    .optional()
    .describe("The command that runs in the sandbox."),
  timeoutSeconds: int32.default(60).describe("After this time, the command is ended."),
});

export const SandboxSpec = withRules(
  z.object({
    paused: OptionalFlag.describe(
      "Whether to pause the sandbox. Set it to false to resume. A clone that is created with true is not started until then.",
    ),
    pauseStrategy: PauseStrategy.optional(),
    ...contentFields,
    shutdownTime: Time.optional().describe("When the sandbox is deleted. A time in the past deletes it immediately."),
    pauseTime: Time.optional().describe("When the sandbox is paused."),
    runtimes: Runtimes.optional(),
    lifecycle: z
      .object({
        preUpgrade: UpgradeAction.optional().describe("Runs before the upgrade."),
        postUpgrade: UpgradeAction.optional().describe("Runs after the upgrade."),
      })
      .optional()
      .describe("Commands that run around an upgrade of the sandbox."),
    upgradePolicy: z
      .object({
        type: z
          .enum(["Recreate", "CheckpointRestore"])
          .optional()
          .describe("Recreate starts the sandbox again; CheckpointRestore keeps its contents."),
      })
      .optional()
      .describe("How to apply a changed template to a running sandbox. Default: not at all."),
    ...templateFields,
  }),
  [oneTemplate, selectedVolumes],
);
export type SandboxSpec = z.infer<typeof SandboxSpec>;

export const disruptionCauses = [
  "Evicted",
  "Preempted",
  "NodeTaint",
  "NodeShutdown",
  "NodeLost",
  "PodDeleted",
  "CellDied",
  "NodeCordoned",
  "NodeLeaving",
  "NodeReclaimed",
] as const;
export type DisruptionCause = (typeof disruptionCauses)[number];

const disruptionOutcomes = [
  "Migrating",
  "Migrated",
  "Restoring",
  "Restored",
  "Pausing",
  "Paused",
  "Withdrawn",
  "Failed",
  "Lost",
] as const;

const automaticOutcomes = ["Taking", "Taken", "Skipped", "Failed"] as const;

const KnownCell = z.object({
  podUID: z.string().describe("The UID of the Pod."),
  podIP: z.string().describe("Its address."),
  cellKey: z.string().describe("The public key of its cell."),
});

/** The fields that Ramet adds to the status of OpenKruise Agents. */
const RametSandboxStatus = z.object({
  generation: z.int().min(0).optional().describe("How often the sandbox's memory has been given an identity."),
  bootMilliseconds: z.number().min(0).optional().describe("From the Pod's creation until the sandbox responded."),
  initRequest: OptionalText.describe("The digest of the agents.kruise.io/init-runtime-request that the guest has."),
  egress: z.string().optional().describe("The digest of the egress policy that the cell was last given."),
  egressRequest: OptionalText.describe(
    "The digest of the sandbox's own egress rules that are part of that policy. Absent: it has none.",
  ),
  credentials: OptionalText.describe(
    "The digest of the sandbox's own credentials that the cell has, or that are not valid.",
  ),
  cellKey: OptionalText.describe(
    "The public key with which the Pod's cell proves itself. Absent: the cell is of a version without one.",
  ),
  engine: z.string().optional().describe("The engine that runs the sandbox: its gVisor build and guest build."),
  capacity: Capacity.optional().describe(
    "The CPUs and the memory that the sandbox has: its limits, or without them those of its node.",
  ),
  writableLayer: WritableLayer.optional().describe(
    "The layer of the files that the sandbox writes. A clone with memory has the size of its source's.",
  ),
  unsuitedNodes: OptionalTexts.describe(
    "During a start: the nodes that were tried and whose CPU lacks a feature that the checkpoint needs.",
  ),
  endedPods: OptionalTexts.describe(
    "During a resume: the UIDs of the Pods that were ended before the sandbox was resumed in them.",
  ),
  claims: OptionalTexts.describe("The PersistentVolumeClaims of the sandbox's last Pod that outlive it."),
  restoredFrom: OptionalText.describe(
    "The id of the checkpoint that this sandbox was cloned from, or was last rolled back to.",
  ),
  layers: OptionalTexts.describe("The ids of the checkpoints that hold the layers of files below the sandbox's own."),
  layerBytes: z.array(z.int().min(0)).optional().describe("The sizes of these layers, in the same order."),
  rollback: z
    .object({
      request: z.string().describe("The digest of the two annotations that requested it."),
      refused: z.boolean().optional().describe("Whether it was refused: the sandbox is as it was before."),
      before: OptionalText.describe(
        "During a rollback, or after a refused one: the digest of the last one that has changed the sandbox.",
      ),
      checkpointId: z.string().optional().describe("During a rollback: the checkpoint that is being restored."),
      onResume: OptionalText.describe(
        "The checkpoint whose volumes the sandbox gets when it is resumed. The rollback is answered.",
      ),
      replacedPodUid: z.string().optional().describe("During a rollback: the UID of the Pod that is being replaced."),
      programs: ReplacedPrograms.optional().describe("The programs of the sandbox. Absent: not known."),
    })
    .optional()
    .describe("The current rollback, or the last one."),
  disruption: z
    .object({
      cause: openString(disruptionCauses).describe("Who ended the sandbox's Pod, or why its node leaves."),
      at: Time.describe("When the controllers noticed it."),
      outcome: openString(disruptionOutcomes).describe(
        "Migrating, Restoring and Pausing: under way. Restored: it continued from its last automatic checkpoint. Withdrawn: nobody deleted the Pod, and it runs on. Failed: it could not be resumed, and its checkpoint is kept.",
      ),
      podUID: OptionalText.describe("The UID of the Pod that was ended."),
      nodeName: OptionalText.describe("The node of that Pod, if the sandbox was captured there."),
      endedAt: Time.optional().describe("When the sandbox responded again, or the attempt failed."),
      failures: int32.optional().describe("How many captures have failed in a row while nobody ended the Pod."),
      problem: Problem.optional().describe(
        "Why the last capture has failed, and when it is repeated. Restored: that, or the limit that has ended the Pod.",
      ),
      checkpoint: OptionalText.describe("The automatic Checkpoint from which it continues. Later work is lost."),
      savedAt: Time.optional().describe("When its state was captured."),
      priority: int32.optional().describe("That of the Pod. Absent: 0."),
      attempts: int32.optional().describe("How often it was lost in a row soon after it had continued."),
    })
    .optional()
    .describe("The last time that others than the controllers ended the sandbox's Pod."),
  noTarget: z
    .object({
      cause: openString(disruptionCauses).describe("Why it needs another node."),
      at: Time.describe("When the controllers noticed it."),
      message: z.string().describe("Why no other node takes the sandbox."),
      pausedAt: Time.optional().describe("Paused: when its last Pod was given up."),
      retryAt: Time.optional().describe(
        "Paused: when its next Pod is created, unless a node is added or stays before.",
      ),
    })
    .optional()
    .describe(
      "No other node takes the sandbox: it runs on one that leaves, or its Pod was ended and it waits with its state. Absent: it does not wait for a node.",
    ),
  startingPod: KnownCell.optional().describe("During a start: the Pod to which the sandbox was given."),
  removedPods: z
    .array(
      KnownCell.extend({
        at: Time.describe("When the controllers noticed that it was removed."),
      }),
    )
    .optional()
    .describe(
      "Pods that were removed without the word of their nodes, where they may still run. For ten minutes, the controllers stop them as soon as they respond.",
    ),
  automatic: z
    .object({
      outcome: openString(automaticOutcomes).describe(
        "Skipped: nothing has changed since the last one, or it cannot be taken; the message says why.",
      ),
      at: Time.describe("When that was decided. The time of the next one follows from it."),
      checkpoint: OptionalText.describe("The Checkpoint from which the sandbox continues if its Pod is lost."),
      savedAt: Time.optional().describe("When that was captured."),
      taking: OptionalText.describe("The Checkpoint that is being taken."),
      failures: int32.optional().describe("How many have failed in a row."),
      message: StatusMessage,
    })
    .optional()
    .describe("The last automatic checkpoint (ramet.dev/checkpoint-every)."),
  phases: z
    .record(z.string(), z.number())
    .optional()
    .describe("Milliseconds by phase of the boot or the restore, in order."),
  problems: Problems,
});

export type RametSandboxStatus = z.infer<typeof RametSandboxStatus>;

export const SandboxStatus = z.object({
  observedGeneration: ObservedGeneration,
  phase: openString(sandboxPhases).optional().describe("Where the sandbox is in its life."),
  message: StatusMessage,
  conditions: Conditions.optional(),
  podInfo: z
    .object({
      annotations: z.record(z.string(), z.string()).optional().describe("Annotations of the Pod."),
      labels: z.record(z.string(), z.string()).optional().describe("Labels of the Pod."),
      nodeName: OptionalText.describe("The node that the Pod is on."),
      podIP: OptionalText.describe("The address of the Pod."),
      podUID: OptionalText.describe("The UID of the Pod."),
    })
    .optional()
    .describe("The sandbox's Pod."),
  nodeName: OptionalText.describe("The node that the sandbox runs on."),
  sandboxIp: OptionalText.describe("The address of the sandbox's Pod."),
  updateRevision: z.string().optional().describe("The revision of the template from which the Pod was created."),
  recycledCount: int32.optional().describe("How often the sandbox was returned to its set. Ramet does not recycle."),
  ramet: RametSandboxStatus.optional().describe("Fields that Ramet adds to the status of OpenKruise Agents."),
});
export type SandboxStatus = z.infer<typeof SandboxStatus>;

export const sandboxKind = defineKind({
  kind: "Sandbox",
  plural: "sandboxes",
  singular: "sandbox",
  shortNames: ["sbx"],
  description: "One isolated environment for one agent, and the Pod that runs it.",
  spec: SandboxSpec,
  status: SandboxStatus,
  rules: [sandboxName],
  columns: [
    { name: "Status", type: "string", jsonPath: ".status.phase" },
    { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" },
    { name: "Claimed", type: "string", jsonPath: ".metadata.labels.agents\\.kruise\\.io/sandbox-claimed" },
    { name: "shutdown_time", type: "string", jsonPath: ".spec.shutdownTime" },
    { name: "pause_time", type: "string", jsonPath: ".spec.pauseTime" },
    { name: "RecycledCount", type: "integer", jsonPath: ".status.recycledCount", priority: 1 },
    { name: "Message", type: "string", jsonPath: ".status.message" },
    { name: "Engine", type: "string", jsonPath: ".status.ramet.engine", priority: 1 },
  ],
});
export const Sandbox = sandboxKind.object;
export type Sandbox = z.infer<typeof Sandbox>;
export const SandboxManifest = sandboxKind.manifest;
export type SandboxManifest = z.input<typeof SandboxManifest>;

/** Whether a sandbox has PersistentVolumeClaims, as of its last Pod. */
export function hasVolumes({ status }: Pick<Sandbox, "status">): boolean {
  return (status?.ramet?.claims ?? []).length > 0;
}
