import * as z from "zod";
import { defineKind } from "../schema/kind.ts";
import { Conditions, openString, Time } from "../schema/metadata.ts";
import { withRules } from "../schema/rules.ts";
import {
  oneTemplate,
  PauseStrategy,
  PersistentContents,
  Runtimes,
  sandboxName,
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
 * Condition types and the reasons of each, as OpenKruise Agents writes them. Where it has no word for what happened (a
 * restore that failed, say), the reason is the `RametError`'s code.
 */
export const sandboxConditions = {
  Ready: ["PodReady", "InplaceUpdating", "Upgrading", "StartContainerFailed", "PodCreateFailed"],
  SandboxPaused: [
    "Pending",
    "ImageChanged",
    "CheckpointCreating",
    "CheckpointSucceeded",
    "CheckpointFailed",
    "SnapshotPauseSucceed",
    "StopPauseSucceed",
  ],
  SandboxResumed: ["CreatePod", "ResumePod"],
  InplaceUpdate: ["InplaceUpdating", "Succeeded", "Failed"],
  Upgrading: [
    "Resuming",
    "ResumeSucceed",
    "PreUpgrade",
    "PreUpgradeFailed",
    "Checkpointing",
    "CheckpointFailed",
    "UpgradePod",
    "UpgradePodFailed",
    "PostUpgrade",
    "PostUpgradeFailed",
    "Succeeded",
  ],
  /** Ramet's own: of a clone or a resumed sandbox, whether all of its memory is in. It answers before. */
  MemoryLoaded: ["Loading", "Loaded", "LoadFailed"],
  RuntimeInitialized: ["Pending", "Succeeded", "Failed"],
  /** Ramet's own: how the last rollback that was asked for went. One that was refused left the sandbox as it was. */
  RolledBack: ["Pending", "Restoring", "Succeeded"],
  Recycling: [
    "RecyclingStarted",
    "RecyclingCompleted",
    "RecyclingSucceeded",
    "RecyclingFailed",
    "RecyclingTimeout",
    "RecyclingRejected",
  ],
} as const;
export type SandboxConditionType = keyof typeof sandboxConditions;

const UpgradeAction = z.object({
  exec: z
    .object({
      command: z.array(z.string()).meta({ "x-kubernetes-list-type": "atomic" }).optional(),
    })
    .optional(),
  timeoutSeconds: z.int().meta({ format: "int32" }).default(60),
});

export const SandboxSpec = withRules(
  z.object({
    paused: z.boolean().optional().describe("Whether the sandbox should be paused; back to false asks for a resume."),
    pauseStrategy: PauseStrategy.optional(),
    persistentContents: PersistentContents.optional(),
    shutdownTime: Time.optional().describe("When the sandbox is deleted. In the past: at once."),
    pauseTime: Time.optional().describe("When paused is set to true."),
    runtimes: Runtimes.optional(),
    lifecycle: z.object({ preUpgrade: UpgradeAction.optional(), postUpgrade: UpgradeAction.optional() }).optional(),
    upgradePolicy: z
      .object({ type: z.enum(["Recreate", "CheckpointRestore"]).optional() })
      .optional()
      .describe("How a changed template reaches a running sandbox. Unset: it does not."),
    ...templateFields,
  }),
  [oneTemplate],
);
export type SandboxSpec = z.infer<typeof SandboxSpec>;

/** What Ramet adds to the reference's status. */
const RametSandboxStatus = z.object({
  generation: z.int().min(0).optional().describe("How often the sandbox's memory has been given an identity."),
  bootMilliseconds: z.number().min(0).optional().describe("From the Pod's creation until the sandbox answered."),
  initRequest: z
    .string()
    .optional()
    .describe("Which agents.kruise.io/init-runtime-request the guest has taken: the digest of its text."),
  restoredFrom: z
    .string()
    .optional()
    .describe("The id of the checkpoint that this sandbox was cloned from, or was last rolled back to."),
  rollback: z
    .object({
      request: z.string().describe("The digest of the two annotations that asked for it."),
      checkpointId: z.string().optional().describe("While it is under way: what is being restored."),
      replacedPodUid: z.string().optional().describe("While it is under way: the Pod that makes room."),
    })
    .optional()
    .describe("The rollback that is under way, or the last one that was answered."),
  phases: z
    .record(z.string(), z.number())
    .optional()
    .describe("Milliseconds by phase of the boot or the restore, in order."),
});

export const SandboxStatus = z.object({
  observedGeneration: z.int().optional(),
  phase: openString(sandboxPhases).optional(),
  message: z.string().optional(),
  conditions: Conditions.optional(),
  podInfo: z
    .object({
      annotations: z.record(z.string(), z.string()).optional(),
      labels: z.record(z.string(), z.string()).optional(),
      nodeName: z.string().optional(),
      podIP: z.string().optional(),
      podUID: z.string().optional(),
    })
    .optional(),
  nodeName: z.string().optional(),
  sandboxIp: z.string().optional(),
  updateRevision: z.string().optional().describe("The revision of the template that the Pod was made from."),
  recycledCount: z.int().meta({ format: "int32" }).optional(),
  ramet: RametSandboxStatus.optional(),
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
    { name: "RecycledCount", type: "integer", jsonPath: ".status.recycledCount" },
    { name: "Message", type: "string", jsonPath: ".status.message" },
  ],
});
export const Sandbox = sandboxKind.object;
export type Sandbox = z.infer<typeof Sandbox>;
export const SandboxManifest = sandboxKind.manifest;
export type SandboxManifest = z.input<typeof SandboxManifest>;
